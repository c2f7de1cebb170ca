package testenv_test

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/golang-migrate/migrate/v4"
	migratemysql "github.com/golang-migrate/migrate/v4/database/mysql"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/pressly/goose/v3"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/migrations"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// TestMigrations: goose and golang-migrate run the files of migrations/mysql as they are, twice, beside tables of
// versions that are not their own, and make the same schema as Migrate, with which every strategy works.
func TestMigrations(t *testing.T) {
	ways := []struct {
		name string
		run  func(t *testing.T, dsn string) error
	}{
		{"migrate of the library", byLibrary},
		{"goose", byGoose},
		{"golang-migrate", byGolangMigrate},
	}
	for _, kind := range []testenv.Kind{testenv.MySQL, testenv.MariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			s, err := testenv.Find(t.Context(), kind)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { must(t, "close", s.Close()) })
			admin := sqlPool(t, s.DSN())
			var want []string
			for i, way := range ways {
				name := fmt.Sprintf("rowlock_migrations_%d", i)
				for _, statement := range []string{"DROP DATABASE IF EXISTS " + name, "CREATE DATABASE " + name} {
					if _, err := admin.Exec(statement); err != nil {
						t.Fatal(err)
					}
				}
				t.Cleanup(func() { _, _ = admin.Exec("DROP DATABASE " + name) })
				config, err := mysql.ParseDSN(s.DSN())
				must(t, "parse the DSN", err)
				config.DBName = name
				config.MultiStatements = true // golang-migrate sends a file at once
				dsn := config.FormatDSN()
				must(t, way.name, way.run(t, dsn))
				must(t, way.name+" again", way.run(t, dsn))

				got := schema(t, sqlPool(t, dsn))
				if i == 0 {
					want = got
				}
				if !slices.Equal(got, want) || len(got) < 30 {
					t.Errorf("%s makes another schema:\n%s\nwant:\n%s", way.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				for _, strategy := range []mysqllock.Strategy{mysqllock.VersionColumn, mysqllock.UniqueInsert, mysqllock.SelectForUpdate} {
					store, err := mysqllock.Open(dsn, mysqllock.Options{Strategy: strategy})
					must(t, "open", err)
					must(t, fmt.Sprint("check of ", strategy, " after ", way.name), store.Check(t.Context()))
					must(t, "close the store", store.Close())
				}
			}
		})
	}
}

func byLibrary(t *testing.T, dsn string) error {
	store, err := mysqllock.Open(dsn, mysqllock.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	return store.Migrate(t.Context())
}

func byGoose(t *testing.T, dsn string) error {
	goose.SetBaseFS(migrations.MySQL)
	goose.SetTableName("goose_rowlock")
	goose.SetLogger(goose.NopLogger())
	if err := goose.SetDialect("mysql"); err != nil {
		return err
	}
	return goose.UpContext(t.Context(), sqlPool(t, dsn+"&parseTime=true"), "mysql")
}

func byGolangMigrate(t *testing.T, dsn string) error {
	files, err := iofs.New(migrations.MySQL, "mysql")
	if err != nil {
		return err
	}
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	target, err := migratemysql.WithInstance(db, &migratemysql.Config{MigrationsTable: "migrate_rowlock"})
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", files, "mysql", target)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.Up(); err != nil && err != migrate.ErrNoChange {
		return err
	}
	return nil
}

// schema is every table, column and index of the locks in the database, in words.
func schema(t *testing.T, db *sql.DB) []string {
	t.Helper()
	var lines []string
	for _, question := range []string{
		"SELECT CONCAT_WS(' ', TABLE_NAME, ENGINE, TABLE_COLLATION) FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME LIKE 'rowlock%' ORDER BY TABLE_NAME",
		"SELECT CONCAT_WS(' ', TABLE_NAME, ORDINAL_POSITION, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, IFNULL(COLUMN_DEFAULT,'-'), EXTRA) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME LIKE 'rowlock%' ORDER BY TABLE_NAME, ORDINAL_POSITION",
		"SELECT CONCAT_WS(' ', TABLE_NAME, INDEX_NAME, NON_UNIQUE, SEQ_IN_INDEX, COLUMN_NAME) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME LIKE 'rowlock%' ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX",
	} {
		rows, err := db.Query(question)
		must(t, "read the schema", err)
		for rows.Next() {
			var line string
			must(t, "read the schema", rows.Scan(&line))
			lines = append(lines, line)
		}
		must(t, "read the schema", rows.Err())
	}
	return lines
}
