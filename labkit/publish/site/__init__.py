"""The course as a static site: the book, and the bench on each lab's page."""
