//go:build !unix

package locktest

// canFreeze says that a child process can be stopped and continued.
const canFreeze = false

func (p *process) freeze() { p.t.Fatal("no freezing of processes here") }
func (p *process) thaw()   { p.t.Fatal("no freezing of processes here") }
