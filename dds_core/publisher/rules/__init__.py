"""The rules of the publisher, one module per topic; `deciding` calls them."""
