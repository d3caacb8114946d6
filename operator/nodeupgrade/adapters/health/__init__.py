"""Health checks, evaluated for real: queries of a Prometheus and objects of the cluster, judged by CEL expressions."""
