// Dashboard makes the pictures of the Grafana dashboard in the documentation: programs that share locks in the MySQL and
// the MongoDB which ROWLOCK_TEST_MYSQL_DSN and ROWLOCK_TEST_MONGO_URI name, a Prometheus that scrapes them every second
// while things go wrong, and what it answers to the expressions of grafana.json. A panel without an answer is an
// error. Grafana itself takes no part: lines, colours and the arrangement are of this program.
//
//	make dashboard
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	out := flag.String("out", "docs/img", "a `folder` for the pictures")
	file := flag.String("dashboard", "observability/grafana.json", "the dashboard, a `file`")
	to := flag.String("to", "", "write what was recorded to a `file`")
	from := flag.String("from", "", "draw what an earlier run has written to a `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if flag.Arg(0) == memberArg {
		end(runMember(ctx))
	}
	end(run(ctx, *file, *from, *to, *out))
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run records, or reads what was recorded, and draws it.
func run(ctx context.Context, dashboard, from, to, out string) (err error) {
	var r recording
	if from != "" {
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
	} else if r, err = record(ctx, dashboard); err != nil {
		return err
	}
	if to != "" {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return err
		}
	}
	return r.write(out)
}
