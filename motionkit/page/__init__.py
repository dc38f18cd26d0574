"""Parts of every page: charts, tables and style."""
