"""From grades to tables, pages and gradebooks."""
