package workload

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// variable tells a copy of this program that it is a client.
const variable = "ROWLOCK_VERIFY_CLIENT"

// Main plays the client and does not return, if this process was started as one.
// Call it first in main.
func Main() {
	if os.Getenv(variable) == "" {
		return
	}
	signal.Ignore(os.Interrupt) // Ctrl-C reaches every process of a terminal; the parent decides
	if err := client(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// order is what the parent tells a client.
type order struct {
	Stop bool          // come to an end
	Wall time.Duration // else: have a wall clock that is wrong by so much
}

// answer is what a client tells its parent: once when its spaces are open, then when
// its wall clock is as ordered.
type answer struct{}

// process is a client as its parent has it.
type process struct {
	cmd  *exec.Cmd
	log  string // the file of what it says on its standard error
	in   io.WriteCloser
	from *json.Decoder
	wait func() error

	mu sync.Mutex // of an order and its answer
	to *json.Encoder
}

// launch starts a client and gives it its task. It does not wait for it.
func launch(t Task) (*process, error) {
	program := t.Program
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		program = self
	}
	p := &process{cmd: exec.Command(program), log: filepath.Join(t.Folder, t.Name+".log")}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the client has its own
	p.cmd.Env = append(os.Environ(), variable+"=1")
	p.cmd.Stderr = log
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.to, p.from = json.NewEncoder(p.in), json.NewDecoder(out)
	p.wait = sync.OnceValue(p.cmd.Wait)
	return p, p.to.Encode(t)
}

// ask sends an order and waits for its answer.
func (p *process) ask(o order) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.to.Encode(o); err != nil {
		return err
	}
	return p.answer()
}

func (p *process) answer() error {
	var a answer
	return p.from.Decode(&a)
}

// stop tells the client to come to an end.
func (p *process) stop() error { return p.to.Encode(order{Stop: true}) }

// said is the end of what the client wrote to its standard error.
func (p *process) said() string {
	text, _ := os.ReadFile(p.log)
	if len(text) > 4000 {
		text = text[len(text)-4000:]
	}
	return strings.TrimSpace(string(text))
}
