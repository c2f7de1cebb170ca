// Package observability has a Grafana dashboard (grafana.json) and alert rules (alerts.yml) for the
// metrics of package promrowlock. No program imports it: its tests compare both with the
// metrics that there are, test the rules with promtool (alerts.test.yml), and let a Prometheus
// scrape a program.
package observability
