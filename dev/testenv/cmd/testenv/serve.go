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

	"github.com/rowlock/rowlock/dev/testenv"
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

A cluster has a second address beside dsn, leaving, which leaves connections to the member that took writes before
open where dsn cuts them, and those of its members. It also obeys: switch N, promote, rejoin N; primary; haproxy. The
answer to promote and primary is "ok N", the member that takes writes, -1 for none; to haproxy, which starts a real
HAProxy before the members, "ok DSN", its address.

Kinds: mysql, mariadb, mongo, mongo-standalone, mongo3; clusters: mysql-semisync, mysql-async, mysql-gr3,
mariadb-galera3.`,
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
	hello, err := json.Marshal(map[string]any{"dsn": s.DSN(), "version": s.Version(), "leaving": s.LeavingDSN(), "members": s.MemberDSNs()})
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
					reply(out, "", err)
				}
				return err
			}
			answer, err := obey(ctx, s, line)
			reply(out, answer, err)
		}
	}
}

// obey carries out one line. What there is to answer comes with it.
func obey(ctx context.Context, s *testenv.Server, line string) (answer string, err error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return "", fmt.Errorf("empty line")
	}
	var members []int
	for _, w := range words[1:] {
		i, err := strconv.Atoi(w)
		if err != nil {
			return "", fmt.Errorf("%q is no member number", w)
		}
		members = append(members, i)
	}
	at := -1
	switch words[0] {
	case "pause":
		return "", s.Pause(members...)
	case "resume":
		return "", s.Resume(members...)
	case "kill":
		return "", s.Kill(members...)
	case "restart":
		return "", s.Restart(ctx, members...)
	case "switch":
		if len(members) != 1 {
			return "", fmt.Errorf("switch needs the number of one member")
		}
		return "", s.Switch(ctx, members[0])
	case "rejoin":
		return "", s.Rejoin(ctx, members...)
	case "haproxy":
		return s.HAProxy(ctx)
	case "promote":
		at, err = s.Promote(ctx)
	case "primary":
		at, err = s.Primary(ctx)
	default:
		return "", fmt.Errorf("unknown word %q: pause, resume, kill, restart, quit, or for a cluster switch, promote, rejoin, primary, haproxy", words[0])
	}
	return strconv.Itoa(at), err
}

// reply keeps an error on one line.
func reply(out io.Writer, answer string, err error) {
	if err == nil {
		fmt.Fprintln(out, strings.TrimSpace("ok "+answer))
		return
	}
	fmt.Fprintf(out, "error: %s\n", strings.ReplaceAll(err.Error(), "\n", " | "))
}
