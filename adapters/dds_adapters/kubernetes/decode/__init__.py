"""Raw objects of the API server to the records of the core, and what changed in them to facts."""
