"""The rules of the scaler, one module per topic; `deciding` calls them."""
