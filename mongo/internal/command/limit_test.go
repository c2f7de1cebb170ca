package command

import (
	"testing"
	"time"
)

func TestLimit(t *testing.T) {
	var p Limit
	first := p.Of(500)
	p.Observe(2, time.Second)
	if p.Of(500) != first {
		t.Error("it learned from a command with two keys")
	}
	p.Observe(500, 100*time.Millisecond)
	slow := p.Of(500)
	if slow <= 100*time.Millisecond || slow <= first {
		t.Errorf("a command that usually takes 100 ms may take %v", slow)
	}
	for range 100 {
		p.Observe(500, 5*time.Millisecond)
	}
	if fast := p.Of(500); fast >= first || fast < MinWait+5*time.Millisecond {
		t.Errorf("a command that usually takes 5 ms may take %v", fast)
	}
	for range 100 {
		p.TooShort(500)
	}
	if most := p.Of(500); most != MaxWait {
		t.Errorf("however slow the server, a command may take %v, want %v", most, MaxWait)
	}
}
