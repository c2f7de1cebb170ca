package main

import (
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for name, tc := range map[string]struct {
		events string
		want   outcome
	}{
		"passed": {
			`{"Action":"run","Test":"TestA"}
{"Action":"pass","Test":"TestA"}
{"Action":"pass"}`,
			outcome{tests: []string{"TestA"}},
		},
		"skipped": {
			`{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"    a_test.go:1: no server\n"}
{"Action":"skip","Test":"TestA"}
{"Action":"pass"}`,
			outcome{},
		},
		"failed": {
			`{"Action":"output","Test":"TestA/b","Output":"    a_test.go:12: P1: two holders\n"}
{"Action":"output","Test":"TestA/b","Output":"    a_test.go:13: more\n"}
{"Action":"fail","Test":"TestA/b"}
{"Action":"pass","Test":"TestA/c"}
{"Action":"fail","Test":"TestA"}
{"Action":"fail"}`,
			outcome{tests: []string{"TestA/b", "TestA/c", "TestA"}, failed: []string{"TestA/b"}, line: "P1: two holders"},
		},
		"crashed": {
			`{"Action":"output","Test":"TestA","Output":"panic: deadlock [recovered]\n"}
{"Action":"fail","Test":"TestA"}
{"Action":"fail"}`,
			outcome{tests: []string{"TestA"}, failed: []string{"TestA"}, line: "deadlock [recovered]"},
		},
		"hung": {
			`{"Action":"output","Test":"TestA","Output":"panic: test timed out after 4m0s\n"}
{"Action":"fail","Test":"TestA"}
{"Action":"fail"}`,
			outcome{tests: []string{"TestA"}, failed: []string{"TestA"}, line: "test timed out after 4m0s", timedOut: true},
		},
		"not compiled": {
			`{"ImportPath":"x [x.test]","Action":"build-output","Output":"# x [x.test]\n"}
{"ImportPath":"x [x.test]","Action":"build-output","Output":"./a.go:3:2: undefined: y\n"}
{"ImportPath":"x [x.test]","Action":"build-fail"}
{"Action":"fail","FailedBuild":"x [x.test]"}`,
			outcome{noBuild: "it does not compile: undefined: y"},
		},
	} {
		o, err := read(strings.NewReader(tc.events))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.Equal(o.tests, tc.want.tests) || !slices.Equal(o.failed, tc.want.failed) || o.line != tc.want.line || o.noBuild != tc.want.noBuild || o.timedOut != tc.want.timedOut {
			t.Errorf("%s: %+v, want %+v", name, *o, tc.want)
		}
	}
}
