package mysqllock_test

import (
	"context"
	"database/sql"
	"log"

	"github.com/go-sql-driver/mysql"

	mysqllock "github.com/rowlock/rowlock/mysql"
)

// Of several servers the one that takes writes is found, and found again after a failover.
func ExampleOpenPrimary() {
	store, err := mysqllock.OpenPrimary([]string{
		"app:secret@tcp(db1:3306)/app",
		"app:secret@tcp(db2:3306)/app",
		"app:secret@tcp(db3:3306)/app",
	}, mysqllock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
}

// A pool of the program's own follows the primary too.
func ExampleNewPrimaryDialer() {
	dsns := []string{"app:secret@tcp(db1:3306)/app", "app:secret@tcp(db2:3306)/app"}
	dialer, err := mysqllock.NewPrimaryDialer(dsns)
	mysql.RegisterDialContext("primary", dialer.DialContext)
	db, err := sql.Open("mysql", "app:secret@primary(any)/app?rejectReadOnly=true")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	defer dialer.Close()
}

// What a server is taken for, what holds there, and which settings are unsafe.
func ExampleStore_Cluster() {
	store, err := mysqllock.Open("app:secret@tcp(db:3306)/app", mysqllock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	ctx := context.Background()
	is, err := store.Cluster(ctx) // Kind, Promised, Warnings
	for _, w := range is.Warnings {
		log.Println("locks:", w)
	}
	if err != nil {
		log.Fatal(err)
	}
}
