//go:build !unix

package workload

import (
	"errors"
	"fmt"
)

// CanFreeze: this system cannot stop a process from outside.
const CanFreeze = false

func (p *process) freeze() error { return fmt.Errorf("freeze a process: %w", errors.ErrUnsupported) }

func (p *process) thaw() error { return p.freeze() }
