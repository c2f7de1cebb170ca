package mongolock

import (
	"testing"
	"time"
)

func TestBatchLimit(t *testing.T) {
	var p batchLimit
	first := p.of(500)
	p.observe(2, time.Second)
	if p.of(500) != first {
		t.Error("it learned from a command with two keys")
	}
	p.observe(500, 100*time.Millisecond)
	slow := p.of(500)
	if slow <= 100*time.Millisecond || slow <= first {
		t.Errorf("a command that usually takes 100 ms may take %v", slow)
	}
	for range 100 {
		p.observe(500, 5*time.Millisecond)
	}
	if fast := p.of(500); fast >= first || fast < partWait+5*time.Millisecond {
		t.Errorf("a command that usually takes 5 ms may take %v", fast)
	}
	for range 100 {
		p.tooShort(500)
	}
	if most := p.of(500); most != longWait {
		t.Errorf("however slow the server, a command may take %v, want %v", most, longWait)
	}
}
