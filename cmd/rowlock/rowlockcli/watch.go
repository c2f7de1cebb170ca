package rowlockcli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/driver"
)

func (a *app) watchCommand() *cobra.Command {
	var renewals bool
	var output string
	interval := duration(time.Second)
	cmd := &cobra.Command{
		Use:   "watch [PREFIX]",
		Short: "Show changes of keys as they happen",
		Long: `Reads the keys that begin with PREFIX every --interval, and writes a line for each change: acquired, released,
expired, forced, pinned, and with --renewals renewed; of a key that several have (run --shared, run --slots) also
joined and left. First come the keys that are held (held). What happens and is over between two reads is not
seen. It only reads, and ends at Ctrl-C.`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.query(func(q *query, args []string) error {
			lister, ok := q.Store.(driver.Lister)
			if !ok {
				return fmt.Errorf("%w: this store cannot list", driver.ErrNotSupported)
			}
			if interval < duration(50*time.Millisecond) {
				return invalid("--interval %s: use at least 50ms", time.Duration(interval))
			}
			if output != "text" && output != "json" {
				return invalid("-o %s: use text or json", output)
			}
			w := &watcher{query: q, renewals: renewals, json: output == "json", keys: make(map[string]look)}
			for first := true; ; first = false {
				if err := w.read(lister, strings.Join(args, ""), first); err != nil {
					return err
				}
				if err := q.pause(time.Duration(interval)); err != nil {
					return err
				}
			}
		}),
	}
	cmd.Flags().Var(&interval, "interval", "the time between two reads")
	cmd.Flags().BoolVar(&renewals, "renewals", false, "renewals too")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "`how`: text, or json (an object a line)")
	return cmd
}

// watcher compares what it reads with what it has read before.
type watcher struct {
	*query
	renewals, json bool
	keys           map[string]look
}

// read reads all keys once, and writes the changes.
func (w *watcher) read(lister driver.Lister, prefix string, first bool) error {
	begin := time.Now()
	seen := make(map[string]look, len(w.keys))
	err := w.list(lister, prefix, "", func(i driver.Info) bool {
		l := look{Info: i, begin: begin, end: time.Now()}
		seen[i.Key] = l
		if first {
			if stateOf(i) != "free" {
				w.write(stateOf(i), i)
			}
			return true
		}
		w.compare(w.keys[i.Key], l)
		return true
	})
	if err != nil {
		return err
	}
	for key, before := range w.keys {
		if _, there := seen[key]; !there { // the row is gone: released (UniqueInsert), or reaped
			w.compare(before, look{Info: driver.Info{Key: key, Token: before.Token}, begin: begin, end: time.Now()})
		}
	}
	w.keys = seen
	return nil
}

// compare writes what has happened to a key between two reads.
func (w *watcher) compare(before, now look) {
	held, holds := before.Held && !before.Kept, now.Held && !now.Kept
	switch {
	case held && holds && now.sameAs(before):
		switch some, all := before.Readers+before.Slots, now.Readers+now.Slots; {
		case all > some:
			w.write("joined", now.Info)
		case all < some:
			w.write("left", now.Info)
		case w.renewals && now.endsAfter(before):
			w.write("renewed", now.Info)
		}
		return
	case held:
		w.write(ended(before, now), before.Info)
	}
	switch {
	case holds:
		w.write("acquired", now.Info)
	case now.Pinned && !before.Pinned:
		w.write("pinned", now.Info)
	}
}

// ended says how a hold ended that is not there any more.
func ended(before, now look) string {
	switch {
	case !now.Held && now.Token > before.Token && !before.InPhase():
		return "forced" // nothing else raises the token of a key that nobody takes, but slots do
	case !now.Kept && before.end.Add(before.Left).Before(now.end):
		return "expired"
	}
	return "released"
}

func (w *watcher) write(event string, i driver.Info) {
	at := time.Now()
	if w.json {
		_ = json.NewEncoder(w.cmd.OutOrStdout()).Encode(struct {
			Time  string `json:"time"`
			Event string `json:"event"`
			keyJSON
		}{at.UTC().Format(time.RFC3339Nano), event, asJSON(i)})
		return
	}
	who := ""
	if i.InPhase() {
		who = fmt.Sprintf(" readers=%d slots=%d", i.Readers, i.Slots)
	}
	w.print("%s %-8s %s owner=%s token=%d%s", at.Format("15:04:05.000"), event, printable(i.Key), printable(i.Owner), i.Token, who)
}
