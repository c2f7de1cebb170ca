package rowlockcli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func helpOf(t *testing.T, name string) string {
	t.Helper()
	root := New(Config{})
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(strings.Fields(name + " --help"))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// inOrder tells what is missing of some texts, one after the other.
func inOrder(text string, parts ...string) (missing string) {
	for _, part := range parts {
		i := strings.Index(text, part)
		if i < 0 {
			return part
		}
		text = text[i+len(part):]
	}
	return ""
}

// TestHelpOfRun: examples first, then the options in groups; each is in one.
func TestHelpOfRun(t *testing.T) {
	text := helpOf(t, "run")
	if missing := inOrder(text, "\nExamples:\n  rowlock run report -- ", "\nUsage:\n", "\nLock:\n", "--period", "\nTime:\n", "--wait", "\nWhat others do:\n", "--shared", "\nOutput:\n", "--metrics-file", "\nDatabase:\n", "--db"); missing != "" {
		t.Errorf("%q is not there, or too early:\n%s", missing, text)
	}
	run, _, err := New(Config{}).Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	run.InitDefaultHelpFlag()
	seen := 0
	run.Flags().VisitAll(func(f *pflag.Flag) {
		seen++
		if groupOf(f.Name) == "" {
			t.Errorf("--%s is in no group of the help", f.Name)
		}
	})
	if seen < 20 {
		t.Errorf("only %d options were seen", seen)
	}
}

// TestHelpOfEach: every command has an example before its options, and no default twice, or of nothing.
func TestHelpOfEach(t *testing.T) {
	commands := []string{""}
	for _, c := range New(Config{}).Commands() {
		if !c.Hidden {
			commands = append(commands, c.Name())
		}
	}
	if len(commands) < 10 {
		t.Fatalf("only %q are there", commands)
	}
	for _, name := range commands {
		text := helpOf(t, name)
		if missing := inOrder(text, "\nExamples:\n  rowlock", "\nUsage:\n  rowlock", "\nOptions:\n", "\nDatabase:\n"); missing != "" && name != "run" {
			t.Errorf("rowlock %s --help: %q is not there, or too early:\n%s", name, missing, text)
		}
		if strings.Contains(text, "(default 0") || strings.Contains(text, ") (default") && strings.Contains(text, "(default: for as long as it takes) (") {
			t.Errorf("rowlock %s --help has a default of nothing:\n%s", name, text)
		}
	}
	if missing := inOrder(helpOf(t, ""), "\nRun:\n  run ", "\nLook and mend:\n", "  ls ", "\nSet up:\n", "  migrate "); missing != "" {
		t.Errorf("%q is not there", missing)
	}
}

// TestHelpMounted: where the commands are among those of another program their examples have its name.
func TestHelpMounted(t *testing.T) {
	root := &cobra.Command{Use: "tools"}
	root.AddCommand(New(Config{Name: "locks"}))
	for line, want := range map[string]string{"locks show --help": "\n  tools locks show report\n", "locks --help": "\n  tools locks ls "} {
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(strings.Fields(line))
		if err := root.Execute(); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v\n%s", line, err, out.String())
		}
	}
}

// TestDidYouMean: what is mistyped is asked for; a password in its place is not repeated.
func TestDidYouMean(t *testing.T) {
	for line, want := range map[string]string{
		"lss":                         `unknown command "lss" for "rowlock"; did you mean ls? `,
		"unlock report":               "did you mean free?",
		"lock report true":            "did you mean run?",
		"report /bin/true":            "to run a command: rowlock run KEY -- COMMAND",
		"mysql://u:S3cret@h/db ls":    "use --db URL",
		"run --no-wiat report true":   "unknown flag: --no-wiat; did you mean --no-wait? (see rowlock run --help)",
		"run --nonblock report true":  "did you mean --no-wait?",
		"run --period=1h --shard k x": "did you mean --shared?",
		"--pasword ls":                "did you mean --password-file?",
		"--collections x ls":          "did you mean --collection?",
		"ls --format json":            "did you mean --output?",
		"-db x ls":                    "-db: long options have two dashes: use --db",
		"-S3cret ls":                  "unknown option -S",
		"run --no-such-thing k true":  "unknown flag: --no-such-thing (see",
	} {
		root := New(Config{})
		root.SetArgs(strings.Fields(line))
		err := root.Execute()
		if ExitCode(err) != exitUsage || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "3cret") {
			t.Errorf("rowlock %s: exit code %d, %v; want %q", line, ExitCode(err), err, want)
		}
	}
}

// TestDurationDefaults: as people write them.
func TestDurationDefaults(t *testing.T) {
	for text, want := range map[string]string{"0": "0", "60": "1m", "90": "1m30s", "2h": "2h", "500ms": "500ms", "10s": "10s", "1h0m5s": "1h0m5s"} {
		var d duration
		if err := d.Set(text); err != nil || d.String() != want {
			t.Errorf("%s is %s, %v; want %s", text, d.String(), err, want)
		}
	}
}
