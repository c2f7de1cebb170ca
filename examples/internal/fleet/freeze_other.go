//go:build !unix

package fleet

import (
	"errors"
	"fmt"
)

// canFreeze: this system cannot stop a process from outside.
const canFreeze = false

// Freeze needs a Unix: this system cannot stop a process from outside.
func (p *Process) Freeze() error { return fmt.Errorf("freeze a process: %w", errors.ErrUnsupported) }

// Thaw ends Freeze.
func (p *Process) Thaw() error { return p.Freeze() }
