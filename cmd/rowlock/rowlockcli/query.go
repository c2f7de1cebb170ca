package rowlockcli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/driver"
)

// query is a command that asks or mends: what it has in hand.
type query struct {
	*app
	*opened
	cmd *cobra.Command
	ctx context.Context
}

// query makes a command of a function that needs the store.
func (a *app) query(do func(q *query, args []string) error) func(*cobra.Command, []string) error {
	return a.command(func(cmd *cobra.Command, args []string) error {
		for _, key := range args {
			if len(key) > driver.MaxKey {
				return invalid("the key has %d bytes: use at most %d", len(key), driver.MaxKey)
			}
		}
		if len(args) == 1 && strings.HasSuffix(cmd.Use, " KEY") {
			a.keyAsItIs(args[0])
		}
		o, err := a.open(cmd.Context())
		if err != nil {
			return err
		}
		defer o.close()
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		q := &query{app: a, opened: o, cmd: cmd, ctx: ctx}
		if err := do(q, args); err != nil {
			return q.failed(err)
		}
		return nil
	})
}

// failed says which database an error is of.
func (q *query) failed(err error) error {
	if cause := context.Cause(q.ctx); cause != nil {
		return cause // a signal
	}
	if _, ours := err.(*ExitError); ours {
		return err
	}
	return fmt.Errorf("%s: %w", q.where, err)
}

// within is a context for one question.
func (q *query) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(q.ctx, time.Duration(q.flags.timeout))
}

func (q *query) print(format string, args ...any) {
	fmt.Fprint(q.cmd.OutOrStdout(), q.clean(fmt.Sprintf(format, args...))+"\n")
}

// look is what the database knows of a key, and between which two moments it said so.
type look struct {
	driver.Info
	begin, end time.Time
}

func (q *query) look(key string) (look, error) {
	ctx, cancel := q.within()
	defer cancel()
	l := look{begin: time.Now()}
	infos, err := q.Inspect(ctx, []string{key})
	l.end = time.Now()
	if err != nil {
		return l, err
	}
	l.Info = infos[0]
	return l, nil
}

// pause waits, and says whether there is still somebody who wants to know.
func (q *query) pause(d time.Duration) error {
	select {
	case <-q.ctx.Done():
		return context.Cause(q.ctx)
	case <-time.After(d):
		return nil
	}
}
