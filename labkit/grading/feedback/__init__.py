"""What each student gets back: a page and a text of their own, and nothing of anybody else's."""
