"""The commands of `dds` that need the lab: `dds lab`, `dds whatif`, `dds plan`. `dds_commands.root` lists their names."""
