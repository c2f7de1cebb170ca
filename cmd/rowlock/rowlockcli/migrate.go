package rowlockcli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/migrations"
)

// migrator is a store that makes its tables.
type migrator interface {
	Migrate(context.Context) error
	Check(context.Context) error
}

func (a *app) migrateCommand() *cobra.Command {
	var up, check bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Print the statements that make the tables (MongoDB: the collections), or run them",
		Long: `Prints the statements that make the tables (MySQL, MariaDB) or collections (MongoDB, for mongosh). They may
be run again: what is there is left alone. Nothing is sent to the database, but with --up, which runs them, and
--check, which says whether they are needed (exit code 1).

--up needs a user who may create tables; everything else needs SELECT, INSERT, UPDATE and DELETE on them only.`,
		Args: cobra.NoArgs,
		RunE: a.command(func(cmd *cobra.Command, _ []string) error {
			if !up && !check {
				text, err := a.statements()
				if err != nil {
					return err
				}
				_, err = fmt.Fprint(cmd.OutOrStdout(), text)
				return err
			}
			o, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer o.close()
			m, ok := o.Store.(migrator)
			if !ok {
				return fmt.Errorf("%w: this store has no tables to make", driver.ErrNotSupported)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), max(time.Minute, time.Duration(a.flags.timeout)))
			defer cancel()
			if up {
				if err := m.Migrate(ctx); err != nil {
					err = fmt.Errorf("%s: %w", o.where, err)
					if denied(err) && !notLoggedIn(err) {
						err = advised{err, "; run this once as a user who may create tables (--db URL), or hand that one the statements: rowlock migrate"}
					}
					return err
				}
			}
			switch err := m.Check(ctx); {
			case err == nil:
				what := "tables"
				if strings.HasPrefix(o.where, "mongodb") {
					what = "collections"
				}
				fmt.Fprintf(cmd.OutOrStdout(), "the %s are there: %s\n", what, a.clean(o.where))
				return nil
			case errors.Is(err, driver.ErrSchema):
				return &ExitError{Code: exitFailed, Err: fmt.Errorf("%s: %w", o.where, err)}
			default:
				return fmt.Errorf("%s: %w", o.where, err)
			}
		}),
	}
	cmd.Flags().BoolVar(&up, "up", false, "make what is missing")
	cmd.Flags().BoolVar(&check, "check", false, "look whether something is missing")
	return cmd
}

// statements are those that make the tables, with a note how to run them.
func (a *app) statements() (string, error) {
	if a.config.Open != nil {
		return "", invalid("the statements are not known here: use --up")
	}
	s, err := a.settings()
	if err != nil {
		return "", err
	}
	if s.address.kind == "mysql" {
		return mysqlStatements(s.prefix)
	}
	return mongoStatements(s.collection), nil
}

var tableName = regexp.MustCompile(`\browlock_`)

// mysqlStatements are the files of package migrations, with the prefix of the tables.
func mysqlStatements(prefix string) (string, error) {
	files, err := fs.Glob(migrations.MySQL, "mysql/*.up.sql")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, name := range files { // sorted
		text, err := migrations.MySQL.ReadFile(name)
		if err != nil {
			return "", err
		}
		b.WriteString(tableName.ReplaceAllString(string(text), prefix+"_"))
	}
	return b.String(), nil
}

// mongoCollections are what a store keeps beside the collection of the leases.
var mongoCollections = []string{"", "_fence", "_runs", "_tx"}

// mongoStatements do what Migrate of mongolock does.
func mongoStatements(collection string) string {
	var b strings.Builder
	for _, suffix := range mongoCollections {
		fmt.Fprintf(&b, "db.getCollectionNames().includes(%[1]q) || db.createCollection(%[1]q)\n", collection+suffix)
	}
	fmt.Fprintf(&b, "db.getCollection(%q).createIndex({name: 1}, {name: \"name_1\", collation: {locale: \"simple\"}})\n", collection)
	fmt.Fprintf(&b, "db.getCollection(%q).updateOne({_id: \"layout\"}, {$setOnInsert: {layout: Long(1)}}, {upsert: true, writeConcern: {w: \"majority\"}})\n", collection)
	return b.String()
}
