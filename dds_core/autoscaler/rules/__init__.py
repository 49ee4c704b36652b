"""The rules of the autoscaler, one module per topic; `deciding` calls them."""
