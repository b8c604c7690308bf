"""No models: Django tells only apps that have this module of a migration."""
