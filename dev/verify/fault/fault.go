package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/dev/testenv"
)

// Fault is one way in which things go wrong.
type Fault struct {
	Name   string         // "reply-dropped"
	Kinds  []testenv.Kind // the servers it is for
	What   string         // what happens, in a line
	Expect string         // what is promised while it lasts and after it
	Weight int            // how often it is drawn, beside the others
	Uses   []string       // two faults that use the same thing are never injected at once: the second waits

	// Inject makes it happen, keeps it for a while and heals it, also when ctx has
	// ended: all is whole again when it returns, unless the error matches
	// ErrNotWhole. One that matches errors.ErrUnsupported says that it cannot be
	// made here, any other that it did not come about, as when ctx ends early. What
	// it did is for people; empty: there was nothing to do it to. Any number may
	// run at once on one Env.
	Inject func(ctx context.Context, e *Env) (what string, err error)
}

// ErrNotWhole is matched by the error of an Inject that could not undo what it did,
// whether ctx has ended or not. What follows on this Env proves nothing.
var ErrNotWhole = errors.New("not whole again")

// notWhole makes an error of healing match ErrNotWhole.
func notWhole(errs ...error) error {
	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotWhole, err)
}

// The sets of kinds.
var (
	sqlKinds   = []testenv.Kind{testenv.MySQL, testenv.MariaDB}
	mongoKinds = []testenv.Kind{testenv.Mongo, testenv.Mongo3}
	mongo3     = []testenv.Kind{testenv.Mongo3}
	clusters   = []testenv.Kind{testenv.MySQLSemiSync, testenv.MySQLGroup3, testenv.MariaDBGalera3}
	lossy      = []testenv.Kind{testenv.MySQLAsync} // what is to be found losing
	replicated = slices.Concat(mongo3, clusters)
	everywhere = []testenv.Kind{testenv.MySQL, testenv.MariaDB, testenv.Mongo, testenv.Mongo3}
	anywhere   = slices.Concat(everywhere, clusters)
)

// What faults use.
const (
	network = "network"
	clients = "clients"
	server  = "server" // whether it runs, and its settings
	tables  = "tables"

	// Clock is used by those that set the clock of a server. It excuses much for the rest of a round.
	Clock = "clock"
)

// All is every fault, those that belong together beside each other.
func All() []Fault {
	return slices.Concat(networkFaults(), clientFaults(), serverFaults(), sessionFaults(), settingFaults(), clockFaults(), diskFaults(),
		memberFaults(), clusterFaults(), foreignFaults(), foreignMongoFaults(), reaperFaults())
}

// by gives it the function that does it, which is not called while another fault uses the same.
func (f Fault) by(do func(ctx context.Context, s *scene) (string, error)) Fault {
	f.Inject = func(ctx context.Context, e *Env) (string, error) {
		s := e.scene()
		release, err := e.take(ctx, f.Uses)
		if err != nil {
			return "", fmt.Errorf("%s: %w", f.Name, err)
		}
		defer release()
		what, err := do(ctx, s)
		if err != nil {
			err = fmt.Errorf("%s: %w", f.Name, err)
		}
		return what, err
	}
	return f
}

// For is the faults for a kind of server.
func For(kind testenv.Kind) []Fault {
	return slices.DeleteFunc(All(), func(f Fault) bool { return !slices.Contains(f.Kinds, kind) })
}

// Markdown is the table of all faults, for docs/quality/rounds.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| fault | on | what happens | what is promised |\n|---|---|---|---|\n")
	for _, f := range All() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, kindsText(f.Kinds), f.What, f.Expect)
	}
	return b.String()
}

func kindsText(kinds []testenv.Kind) string {
	switch {
	case slices.Equal(kinds, anywhere):
		return "all"
	case slices.Equal(kinds, everywhere):
		return "all but clusters of MySQL and MariaDB"
	}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}
