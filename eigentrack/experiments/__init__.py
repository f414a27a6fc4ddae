"""One module for each table or figure: its configurations, its expected values, its plot."""
