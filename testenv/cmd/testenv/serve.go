package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/rowlock/rowlock/testenv"
	"github.com/spf13/cobra"
)

func serveCommand() *cobra.Command {
	var extra []string
	cmd := &cobra.Command{
		Use:   "serve KIND [--arg=--read-only …]",
		Short: "One server of one's own, driven by lines on standard input: pause, resume, kill, restart, quit",
		Long: `Starts one server and prints one JSON line with its dsn and version. Then it obeys lines on standard input:
pause, resume, kill, restart, quit; for a replica set a member's number may follow. It answers each with "ok" or
"error: …". At the end of the input it removes the server and ends.

Kinds: mysql, mariadb, mongo, mongo-standalone, mongo3.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := testenv.ParseKind(args[0])
			if err != nil {
				return err
			}
			return serve(kind, extra, os.Stdin, os.Stdout)
		},
	}
	cmd.Flags().StringArrayVar(&extra, "arg", nil, "an extra argument for the server program (may be repeated)")
	return cmd
}

func serve(kind testenv.Kind, args []string, in io.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), endSignals...)
	defer stop()
	s, err := testenv.Start(ctx, kind, args...)
	if err != nil {
		return err
	}
	defer s.Close()
	hello, err := json.Marshal(map[string]string{"dsn": s.DSN(), "version": s.Version()})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s\n", hello); err != nil {
		return err
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(in); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return s.Close()
		case line, more := <-lines:
			if !more || strings.TrimSpace(line) == "quit" {
				err := s.Close()
				if more {
					reply(out, err)
				}
				return err
			}
			reply(out, obey(ctx, s, line))
		}
	}
}

// obey carries out one line.
func obey(ctx context.Context, s *testenv.Server, line string) error {
	words := strings.Fields(line)
	if len(words) == 0 {
		return fmt.Errorf("empty line")
	}
	var members []int
	for _, w := range words[1:] {
		i, err := strconv.Atoi(w)
		if err != nil {
			return fmt.Errorf("%q is no member number", w)
		}
		members = append(members, i)
	}
	switch words[0] {
	case "pause":
		return s.Pause(members...)
	case "resume":
		return s.Resume(members...)
	case "kill":
		return s.Kill(members...)
	case "restart":
		return s.Restart(ctx, members...)
	}
	return fmt.Errorf("unknown word %q: pause, resume, kill, restart or quit", words[0])
}

// reply keeps an error on one line.
func reply(out io.Writer, err error) {
	if err == nil {
		fmt.Fprintln(out, "ok")
		return
	}
	fmt.Fprintf(out, "error: %s\n", strings.ReplaceAll(err.Error(), "\n", " | "))
}
