"""The two languages as text and trees; knows no catalog and no storage."""
