"""The live scaler: the engine, its log and its threads around one cluster. It decides nothing and knows no wire format: what was
seen comes from `kubernetes`, what is to be done is decided by `dds_core`."""
