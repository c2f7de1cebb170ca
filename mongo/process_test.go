package mongolock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// Some tests need a process that can be killed or frozen in a transaction.

const txChildVariable = "ROWLOCK_MONGO_TX_CHILD"

// txJob is what such a process does.
type txJob struct {
	Role string // inside, inside group, inside mixed group, frozen or once
	URI  string
	DB   string
	TTL  time.Duration
}

// TestTxChild is that process; elsewhere it does nothing.
func TestTxChild(t *testing.T) {
	text := os.Getenv(txChildVariable)
	if text == "" {
		return // not a child
	}
	var j txJob
	must(t, json.Unmarshal([]byte(text), &j))
	go func() { // it ends with its parent
		for scan := bufio.NewScanner(os.Stdin); scan.Scan(); {
		}
		os.Exit(2)
	}()
	client, err := mongo.Connect(options.Client().ApplyURI(j.URI))
	must(t, err)
	s, err := New(client.Database(j.DB).Collection("locks"), Options{})
	must(t, err)
	c := locker(t, s, rowlock.Options{TTL: j.TTL})
	switch j.Role {
	case "inside":
		j.inside(t, s, c)
	case "inside group":
		j.insideGroup(t, s, c, false)
	case "inside mixed group":
		j.insideGroup(t, s, c, true)
	case "frozen":
		j.frozen(t, s, c)
	case "once":
		j.once(t, s, c)
	}
}

// process is a child process.
type process struct {
	*os.Process
	t     testing.TB
	lines *bufio.Scanner
	said  []string
}

// child starts a process for a job on the database of s.
func child(t testing.TB, s *Store, j txJob) *process {
	t.Helper()
	j.URI, j.DB = testserver.DSN(t, testserver.Mongo), s.db.Name()
	text, err := json.Marshal(j)
	must(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^TestTxChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), txChildVariable+"="+string(text))
	_, err = cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &process{Process: cmd.Process, t: t, lines: bufio.NewScanner(out)}
}

// says waits until the process prints a line that begins with word, and returns what
// follows.
func (p *process) says(word string) string {
	for p.lines.Scan() {
		p.said = append(p.said, p.lines.Text())
		if rest, ok := strings.CutPrefix(p.lines.Text(), word+" "); ok {
			return rest
		}
	}
	p.t.Errorf("the child did not say %q but:\n%s", word, strings.Join(p.said, "\n"))
	return ""
}

// often is how often a test is to be done: few times, or what the variable says.
func often(t testing.TB, variable string, few int) int {
	text := os.Getenv(variable)
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%q: want a number", variable, text)
	}
	return n
}

// frozen writes in transactions until the lease is lost. It tells what its first look
// after a long pause says, and what its last transaction.
func (j txJob) frozen(t *testing.T, s *Store, c *rowlock.Client) {
	lease := guarded(t, c, "k")
	var loops atomic.Int64
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		for last := time.Now(); ; time.Sleep(time.Millisecond) {
			now := time.Now()
			err := lease.Err() // after the time that says how long the process stood still
			if now.Sub(last) > j.TTL {
				fmt.Println("look", map[bool]string{true: "lost", false: fmt.Sprint(err)}[errors.Is(err, rowlock.ErrLost)])
				return
			}
			last = now
		}
	}()
	for {
		err := s.InTx(context.Background(), lease, func(ctx context.Context) error { return stamp(ctx, s, lease) })
		if err != nil {
			<-looked
			fmt.Println("end", map[bool]string{true: "lost", false: fmt.Sprint(err)}[errors.Is(err, rowlock.ErrLost)])
			return
		}
		if loops.Add(1) == 3 {
			fmt.Println("works", lease.Token())
		}
	}
}
