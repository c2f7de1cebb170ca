module github.com/rowlock/rowlock

go 1.25.0

require (
	github.com/go-sql-driver/mysql v1.10.1
	github.com/jmoiron/sqlx v1.4.0
	go.mongodb.org/mongo-driver/v2 v2.9.3
)
