package rowlockcli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rowlock/rowlock/doctor"
)

// describeReport writes a report for people. Its first line is the verdict, as Nagios shows it.
func describeReport(w io.Writer, r *doctor.Report, all bool) {
	counts := make(map[doctor.Severity]int)
	for _, f := range r.Findings {
		counts[f.Severity]++
	}
	fmt.Fprintf(w, "%s: %d fail, %d warn, %d ok, %d info, %d skipped\n", r.Worst(),
		counts[doctor.Fail], counts[doctor.Warn], counts[doctor.OK], counts[doctor.Info], counts[doctor.Skipped])
	strategy := r.Strategy
	if !strings.Contains(strategy, " ") { // version, unique or for-update
		strategy = "strategy " + strategy
	}
	fmt.Fprintf(w, "%s; %s\n", r.Server, strategy)
	if r.Renewal.P99 > 0 {
		fmt.Fprintf(w, "p99: statement %s, lock %s, renewal %s; a TTL of %s or more is sane\n",
			precise(r.Statement.P99), precise(r.Commit.P99), precise(r.Renewal.P99), short(r.SaneTTL))
	}
	shown := slices.DeleteFunc(slices.Clone(r.Findings), func(f doctor.Finding) bool { return !all && f.Severity <= doctor.Info })
	if len(shown) == 0 {
		return
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tVERDICT\tWHAT\tSEEN")
	for _, f := range shown {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", f.ID, f.Severity, f.Title, inFlags.Replace(printable(f.Value)))
	}
	_ = table.Flush()
	advise(w, shown)
}

const readOnly = "Options.ReadOnly"

// inFlags has the options of the library as those of this program.
var inFlags = strings.NewReplacer(readOnly+" off", "no --read-only", readOnly, "--read-only")

// advise writes what the findings mean and the commands that mend them, once where several have the same; and then what
// would show that which was skipped.
func advise(w io.Writer, findings []doctor.Finding) {
	var commands []string
	said := ""
	for _, f := range findings {
		if f.Severity <= doctor.Skipped {
			continue
		}
		if text := f.ID + ": " + f.Advice; text != said {
			fmt.Fprintf(w, "\n%s\n", text)
			said = text
		} else if slices.Contains(commands, f.Command) {
			continue
		}
		if f.Command != "" {
			fmt.Fprintf(w, "  %s\n", f.Command)
			commands = append(commands, f.Command)
		}
	}
	var needs []string
	ids := make(map[string][]string) // by what they need
	for _, f := range findings {
		if f.Severity != doctor.Skipped || f.Advice == "" || f.Value != readOnly && strings.Contains(f.Advice, readOnly) {
			continue // the last: something else was in the way
		}
		if ids[f.Advice] == nil {
			needs = append(needs, f.Advice)
		}
		ids[f.Advice] = append(ids[f.Advice], f.ID)
	}
	if len(needs) > 0 {
		fmt.Fprintln(w, "\nSkipped:")
	}
	for _, advice := range needs {
		fmt.Fprintf(w, "  %s: %s\n", strings.Join(slices.Compact(ids[advice]), ", "), inFlags.Replace(advice))
	}
	where(w, commands)
}

// where says where the commands are to be run.
func where(w io.Writer, commands []string) {
	sql := slices.DeleteFunc(slices.Clone(commands), func(c string) bool { return strings.HasPrefix(c, "rowlock ") })
	if len(sql) == 0 {
		return
	}
	client := "mysql"
	if strings.HasPrefix(sql[0], "db.") || strings.HasPrefix(sql[0], "cfg ") {
		client = "mongosh"
	}
	fmt.Fprintf(w, "\nRun these commands in %s as an administrator (those that begin with rowlock: in a shell).\n", client)
	if slices.ContainsFunc(sql, func(c string) bool { return strings.HasPrefix(c, "SET GLOBAL") }) {
		fmt.Fprintln(w, "SET GLOBAL lasts until the server is started again: change its option file too.")
	}
}

// precise is a short time.
func precise(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }
