"""The `dds` command: thin skins over public functions. No command holds logic of its own."""
