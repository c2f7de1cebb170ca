module github.com/rowlock/rowlock/adapters/gocron

go 1.25.0

require (
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/rowlock/rowlock v0.0.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/go-sql-driver/mysql v1.10.1 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
)

replace github.com/rowlock/rowlock => ../..
