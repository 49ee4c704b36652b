"""The Fsas (Fujitsu) CDI managers over https: id manager (token), fabric manager, cluster manager."""
