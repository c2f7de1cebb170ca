package rowlockcli

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/driver"
)

// page is how many keys are asked for at a time.
const page = 5000

func (a *app) lsCommand() *cobra.Command {
	var all bool
	var limit int
	var after, state, owner, output string
	var older duration
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the keys that are taken, and by whom",
		Long: `Lists the keys that begin with PREFIX and are held, kept (released, but --min-hold is not over) or pinned (an
open transaction of the last holder must end first). With --all also those that are free and were used lately.
Bytes that cannot be printed are shown as \xNN; of what is longer than 40 columns the middle is left out (-o names
and -o json have it whole). LEFT is when the lease ends if it is not renewed. WAITING is how many programs wait for the
key; with --strategy for-update they are not counted, and 1+ says that at least one does.

HOLDERS says how many have a key by run --shared (readers) or run --slots; - is one alone. OWNER is one of them
then, AGE how long the key is held so, and LEFT the time until the last of their leases ends. It only reads.`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.query(func(q *query, args []string) error {
			lister, ok := q.Store.(driver.Lister)
			if !ok {
				return fmt.Errorf("%w: this store cannot list", driver.ErrNotSupported)
			}
			write, flush, err := writer(q, output)
			if err != nil {
				return err
			}
			if limit < 0 {
				return invalid("--limit %d: use 0 for all, or a number", limit)
			}
			if _, err := path.Match(owner, ""); err != nil {
				return invalid("--owner %q is no pattern: use letters, * and ?", owner)
			}
			wants := func(i driver.Info) bool {
				switch s := stateOf(i); {
				case state != "" && s != state, state == "" && !all && s == "free":
					return false
				case older > 0 && (s == "free" || age(i) < time.Duration(older)):
					return false
				case owner != "":
					match, _ := path.Match(owner, i.Owner)
					return match
				}
				return true
			}
			found, more := 0, false
			err = q.list(lister, strings.Join(args, ""), after, func(i driver.Info) bool {
				if !wants(i) {
					return true
				}
				if more = limit > 0 && found == limit; more {
					return false
				}
				found++
				after = i.Key
				write(i)
				return true
			})
			if err == nil || found > 0 {
				flush()
			}
			if err == nil && found == 0 && len(args) == 0 && after == "" {
				q.hintStrategy(driver.Info{})
			}
			if err == nil && more {
				q.say("there are more: --after %q, or --limit 0", after)
			}
			return err
		}),
	}
	set := cmd.Flags()
	set.BoolVarP(&all, "all", "a", false, "free keys too")
	set.IntVar(&limit, "limit", 100, "at most so `many`; 0: all")
	set.StringVar(&after, "after", "", "begin after this `key`")
	set.StringVar(&state, "state", "", "only keys in this `state`: held, kept, pinned or free")
	set.StringVar(&owner, "owner", "", "only those whose owner matches this `pattern`, as web*")
	set.Var(&older, "older", "only those that are held for longer")
	set.StringVarP(&output, "output", "o", "table", "`how`: table, names, or json (an object a line)")
	return cmd
}

// list calls take for all keys that begin with prefix and come after one, until it returns false.
func (q *query) list(lister driver.Lister, prefix, after string, take func(driver.Info) bool) error {
	for {
		ctx, cancel := q.within()
		infos, err := lister.List(ctx, prefix, after, page)
		cancel()
		if err != nil {
			return err
		}
		for _, i := range infos {
			if !take(i) {
				return nil
			}
		}
		if len(infos) < page {
			return nil
		}
		after = infos[len(infos)-1].Key
	}
}

// writer writes keys in one of the forms.
func writer(q *query, form string) (write func(driver.Info), flush func(), err error) {
	out := bufio.NewWriterSize(q.cmd.OutOrStdout(), 1<<16) // a table is written in cells
	whole := func() { _ = out.Flush() }
	switch form {
	case "names":
		return func(i driver.Info) { fmt.Fprintln(out, printable(i.Key)) }, whole, nil
	case "json":
		encoder := json.NewEncoder(out)
		return func(i driver.Info) { _ = encoder.Encode(asJSON(i)) }, whole, nil
	case "table":
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		seen, cut := make(map[string]bool), false
		fmt.Fprintln(table, "KEY\tSTATE\tHOLDERS\tOWNER\tAGE\tLEFT\tTOKEN\tWAITING")
		return func(i driver.Info) {
			who, held, left := "-", "-", "-"
			if i.InPhase() {
				who = holders(i)
			}
			if s := stateOf(i); s != "free" {
				held = short(age(i))
			}
			if i.Held {
				left = short(i.Left)
			}
			key, owner := printable(i.Key), printable(i.Owner)
			cut = cut || shorten(key) != key || shorten(owner) != owner
			seen[stateOf(i)] = true
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", shorten(key), stateOf(i), who, shorten(owner), held, left, i.Token, waiting(i))
		}, func() { _ = table.Flush(); whole(); q.explain(seen, cut) }, nil
	}
	return nil, nil, invalid("-o %s: use table, names or json", form)
}

// waiting says how many programs wait for a key.
func waiting(i driver.Info) string {
	switch {
	case i.Waiting == 0:
		return "-"
	case i.WaitingSince.IsZero():
		return strconv.Itoa(i.Waiting) + "+"
	}
	return strconv.Itoa(i.Waiting)
}

// keyJSON is a key for programs.
type keyJSON struct {
	Key    string `json:"key"`
	KeyHex string `json:"key_hex,omitempty"` // where the key is no text
	State  string `json:"state"`
	Owner  string `json:"owner,omitempty"`
	Since  string `json:"since,omitempty"`
	LeftMS int64  `json:"left_ms"`
	Token  int64  `json:"token"`
	Hold   string `json:"hold,omitempty"`

	Readers int `json:"readers,omitempty"` // of a key that several can have
	Slots   int `json:"slots,omitempty"`

	Waiting      int    `json:"waiting"`                 // programs
	WaitingSince string `json:"waiting_since,omitempty"` // the first of them; none: at least so many wait
}

func asJSON(i driver.Info) keyJSON {
	j := keyJSON{Key: i.Key, State: stateOf(i), Owner: i.Owner, LeftMS: i.Left.Milliseconds(), Token: i.Token,
		Readers: i.Readers, Slots: i.Slots, Waiting: i.Waiting}
	if !i.WaitingSince.IsZero() {
		j.WaitingSince = i.WaitingSince.UTC().Format(time.RFC3339Nano)
	}
	if !utf8.ValidString(i.Key) {
		j.KeyHex = hex.EncodeToString([]byte(i.Key))
	}
	if !i.Since.IsZero() {
		j.Since = i.Since.UTC().Format(time.RFC3339Nano)
	}
	if i.Hold != (driver.HoldID{}) {
		j.Hold = i.Hold.String()
	}
	return j
}
