package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const backend = module + "/mysql"

// run makes what `go test -json` prints of one run of one test: the lines that it said, and its end.
func run(pkg, test, end string, said ...string) string {
	var b strings.Builder
	event := func(action, output string) {
		text, _ := json.Marshal(map[string]string{"Action": action, "Package": pkg, "Test": test, "Output": output})
		b.Write(append(text, '\n'))
	}
	event("run", "")
	event("output", "=== RUN   "+test+"\n")
	for _, line := range said {
		event("output", line+"\n")
	}
	event(end, "")
	return b.String()
}

// judge writes the reports into files, and gives what report says of them.
func judge(t *testing.T, texts ...string) (code int, said string) {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"mysql/guard_test.go": "package x\n\tt.Logf(\"granted %v\", d)\n\tt.Errorf(\"granted %v\", d)\n",
		"locktest/env.go":     "package x\n\tt.Log(err)\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var files []string
	for _, text := range texts {
		file := filepath.Join(t.TempDir(), "a.json")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	var out bytes.Buffer
	code, err := report(&out, root, files)
	if err != nil {
		t.Fatal(err)
	}
	return code, out.String()
}

// Each failed once and passed at its second run.
func TestNoLoadExcuses(t *testing.T) {
	for name, c := range map[string]struct{ test, said string }{
		"a promise and a colon":                   {"TestGuard", "    guard_test.go:77: P4: committed after the takeover"},
		"a promise and a comma":                   {"TestGuard", "    guard_test.go:77: P4, mysql version: a statement was sent in the transaction"},
		"two promises":                            {"TestFrozen", "    exclusion.go:136: P1, P2: token 7 was trusted for 3ms after token 8 was granted"},
		"a test of a promise without a prefix":    {"TestP13_LostReplyToTheCommit", "    once_test.go:9: fn was called 2 times for a commit that was executed"},
		"a case of a promise without a prefix":    {"TestConformance/memory/P7_EverythingFlaky", "    lostreply.go:176: release: rowlock: released"},
		"a subtest of a test of a promise":        {"TestP4_Soak/version", "    soak_test.go:9: 7 of 8 updates are there"},
		"two holders by P2, seen as nil":          {"TestP2_Loss/P2_RenewalHangs", `    loss.go:101: P2: "k" was granted to another and Err of the old lease is <nil>, want ErrLost for reason expired`},
		"two holders by P2":                       {"TestP2_Loss/P2_RenewalFails", `    loss.go:147: P2: "k" was granted to another and Err of the old lease is nil`},
		"two holders by P2, at MaxHold":           {"TestP2_Loss/P2_ReasonMaxHold", "    reasons.go:133: P2: the key was granted to another, and the lease that MaxHold ends says nothing"},
		"a frozen process":                        {"TestP2_FrozenProcess", "    frozen.go:40: P2: a frozen process trusted its lease 2ms after another had the key"},
		"a frozen leader":                         {"TestP24_Frozen", "    lead.go:198: P2: a frozen leader trusted its lease 2ms after another led"},
		"two holders after a failover":            {"TestP2_FrozenPrimary", `    forupdate_failover_test.go:48: P2: two trust to hold "held": granted 3s after the next primary was there`},
		"two holders on two nodes":                {"TestGalera", "    clusters_test.go:107: P2: a key is held on one node (<nil>) and was granted on another"},
		"a reader beside a writer":                {"TestModes", "    modes.go:9: P16: a reader was granted \"k\" while a writer holds it"},
		"a race":                                  {"TestStats", "    testing.go:1712: race detected during execution of test"},
		"a race that testing did not sum up":      {"TestStats", "WARNING: DATA RACE"},
		"a time that ran out, and something more": {"TestP3_Tokens", "    a_test.go:1: acquire: context deadline exceeded\n    a_test.go:2: token 3 after 4"},
		"a time that ran out, and a count":        {"TestP13_Once", "    once_test.go:193: P13, version: after context deadline exceeded: 2 effects"},
		"a lost lease, and a count":               {"TestP4_InTx", "    intx_test.go:160: P4, version: rowlock: lease of \"k\" (token 1) lost: it was not renewed within its TTL, committed 2 times"},
		"a panic":                                 {"TestP1_Exclusion", "panic: assignment to entry in nil map"},
		"a line of a source that is not there":    {"TestP4_Soak", "    gone_test.go:2: granted 1.2s after the kill"},
	} {
		t.Run(name, func(t *testing.T) {
			code, said := judge(t, run(backend, c.test, "fail", strings.Split(c.said, "\n")...)+run(backend, c.test, "pass"))
			if code != 1 {
				t.Errorf("code %d, want 1:\n%s", code, said)
			}
		})
	}
}

func TestExcused(t *testing.T) {
	for name, c := range map[string]struct{ test, said string }{
		"a time of another promise":          {"TestP12_Close", "    closing.go:36: P12: close: context deadline exceeded"},
		"a signal that was late":             {"TestP2_DoneWithoutALook", "    loss_test.go:164: Done closed 3.1s after the freeze"},
		"a deadline":                         {"TestP1_Exclusion/P1_LostUpdateCounter", "    exclusion.go:42: acquire: rowlock: acquire \"k\": context deadline exceeded"},
		"a deadline of a promise":            {"TestP8_Conflicts", "    deadlocks.go:77: P8: acquire: context deadline exceeded"},
		"a deadline of MongoDB's driver":     {"TestP3_Tokens", "    a_test.go:1: server selection error: context deadline exceeded, current topology: { Type: ReplicaSetNoPrimary, Servers: [{ Addr: a:1 }, ] }"},
		"a wait":                             {"TestP4_Soak", "    conn_test.go:64: still not: a statement waits"},
		"a wait of the suite":                {"TestP7_LostReply/P7_LateRequest", "    env.go:120: after 45s still not: the key is free"},
		"a child":                            {"TestP7_LostReply", "    process.go:86: a child said nothing for 1m30s"},
		"within":                             {"TestP5_Stale", "    a_test.go:9: the server did not answer within 10s"},
		"a deadline at MongoDB's pool":       {"TestConformance/P16_TrustNeverOverlaps", "    modes.go:77: acquire: acquire \"k\": context deadline exceeded: mongo: check: reach the server on db.locks: context deadline exceeded (timed out while checking out a connection from connection pool: context deadline exceeded; total connections: 4, maxPoolSize: 0, idle connections: 0, wait duration: 279.15ms)"},
		"a deadline after injected faults":   {"TestConformance/P16_EverythingFlaky", "    modes.go:77: acquire: acquire \"k\": context deadline exceeded: locktest: injected fault"},
		"a lease that a slow machine lost":   {"TestP5_Stale", "    stale.go:183: P5: the new holder: rowlock: lease of \"k\" (token 1) lost: it was not renewed within its TTL: context deadline exceeded"},
		"a deadline beside a log line":       {"TestP4_Soak", "    guard_test.go:2: granted 4ms\n    env.go:2: again\n    env.go:139: acquire: context deadline exceeded"},
		"a deadline with something below it": {"TestP4_Soak", "    env.go:139: acquire: k:\n        context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			code, said := judge(t, run(backend, c.test, "fail", strings.Split(c.said, "\n")...)+run(backend, c.test, "pass"))
			if code != 0 || !strings.Contains(said, c.test+" failed once or more") {
				t.Errorf("code %d, want 0 and the test's name:\n%s", code, said)
			}
		})
	}
}

// A failed subtest makes those around it fail, which have nothing to say. A test that passes may say what it likes.
func TestOuterTests(t *testing.T) {
	outer, inner := "TestP1_Exclusion", "TestP1_Exclusion/P1_LostUpdateCounter"
	both := run(backend, inner, "fail", "    a_test.go:1: acquire: context deadline exceeded")
	code, said := judge(t, strings.Replace(run(backend, outer, "fail"), `{"Action":"fail"`, both+`{"Action":"fail"`, 1))
	if code != 0 || strings.Count(said, "failed once or more") != 2 {
		t.Errorf("code %d, want 0 and two names:\n%s", code, said)
	}
	code, said = judge(t, run(backend, "TestP4_Soak", "pass", "    a_test.go:1: P4: this is only logged"), run(backend, inner, "skip"))
	if code != 0 || said != "reruns: every test passed at its first run\n" {
		t.Errorf("code %d, want 0:\n%s", code, said)
	}
}

func TestReportsThatCannotBeRead(t *testing.T) {
	if _, err := report(&bytes.Buffer{}, ".", nil); err == nil {
		t.Error("no files: no error")
	}
	if _, err := report(&bytes.Buffer{}, ".", []string{filepath.Join(t.TempDir(), "none.json")}); err == nil {
		t.Error("no such file: no error")
	}
	if _, _, err := parse(strings.NewReader("this is no JSON\n")); err == nil {
		t.Error("no JSON: no error")
	}
}
