package rowlockcli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// TestExitCodes: each kind of error has its exit code and its advice, however it is wrapped.
func TestExitCodes(t *testing.T) {
	sql := func(number uint16) error { return &mysql.MySQLError{Number: number} }
	const grants, password = "; what a user needs is printed by: rowlock grants --user NAME", "; look at user and password (ROWLOCK_PASSWORD, --password-file)"
	for _, c := range []struct {
		err    error
		code   int
		advice string
	}{
		{nil, 0, ""},
		{&ExitError{Code: 79}, 79, ""},
		{invalid("no"), 64, ""},
		{errors.New("accepts 1 arg(s), received 2"), 64, ""},
		{driver.ErrInvalid, 64, ""},
		{rowlock.ErrHeld, 75, ""},
		{driver.ErrSchema, 78, "; create the tables: rowlock migrate --up"},
		{driver.ErrNotSupported, 78, ""},
		{sql(1045), 78, password},
		{sql(1698), 78, password},
		{mongo.CommandError{Code: 18}, 78, password},
		{errors.New("connection() error: auth error: sasl"), 78, password},
		{sql(1049), 78, "; create the database, or correct its name in the address"},
		{sql(1044), 78, grants},
		{sql(1142), 78, grants},
		{mongo.CommandError{Code: 13}, 78, grants},
		{advised{sql(1142), "; ask"}, 78, "; ask"},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, 69, "; look at host and port of the address, and whether the server runs"},
		{&net.OpError{Op: "read", Err: errors.New("reset")}, 69, ""},
		{context.DeadlineExceeded, 69, "; look at address and network, or give it more time: --timeout"},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("of the database: %w", err)
		}
		if code := ExitCode(err); code != c.code {
			t.Errorf("%v: exit code %d, want %d", err, code, c.code)
		}
		if err != nil && advice(err) != c.advice {
			t.Errorf("%v: %q, want %q", err, advice(err), c.advice)
		}
	}
}

// TestExitCodeOfTheLine: of an error of the command line that has no type.
func TestExitCodeOfTheLine(t *testing.T) {
	for _, line := range [][]string{{"nonsense"}, {"show"}, {"show", "a", "b"}, {"--nonsense"}} {
		root := New(Config{})
		root.SetArgs(line)
		if code := execute(root); code != 64 {
			t.Errorf("rowlock %v: exit code %d, want 64", line, code)
		}
	}
}

// TestExitCodeOfAMistake: a panic is exit code 70.
func TestExitCodeOfAMistake(t *testing.T) {
	root := &cobra.Command{Use: "rowlock", RunE: func(*cobra.Command, []string) error { panic("a mistake") }}
	root.SetArgs(nil)
	if code := execute(root); code != 70 {
		t.Errorf("exit code %d, want 70", code)
	}
}
