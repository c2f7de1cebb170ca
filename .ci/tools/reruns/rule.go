package main

import (
	"regexp"
	"strings"
)

// timeless are the promises that time cannot break: on a machine that stands still a lease is lost and a wait ends, but
// nobody else gets the key beside a holder who trusts his.
const timeless = `(1|3|4|5|7|8|9|10|13|14|16|17|20|21)`

var (
	// testOfOne is the name of a test of such a promise, or of a subtest.
	testOfOne = regexp.MustCompile(`(^|/)(Test)?P` + timeless + `_`)

	// breach begins a message that one of them broke.
	breach = regexp.MustCompile(`^P` + timeless + `[:,]`)

	// trusted are the messages of P2 that say the same of two holders. Its others are of the time that a signal took.
	trusted = regexp.MustCompile(`^P2: .*(granted to another.* (<?nil>?|says nothing)\b|trusted its lease .* after another (had the key|led)|two trust to hold|held on one node .* granted on another|after the freeze .* <?nil>?$)`)

	raced = regexp.MustCompile(`^race detected during execution of test`)

	// ranOut is all that a machine under load can make such a test say.
	ranOut = []*regexp.Regexp{
		regexp.MustCompile(`context deadline exceeded(, current topology: .*)?[\])}]*$`),
		regexp.MustCompile(`context deadline exceeded \(timed out while checking out a connection from connection pool: .*\)$`), // MongoDB's driver
		regexp.MustCompile(`context deadline exceeded: locktest: injected fault$`),                                              // which a caller repeats until then
		regexp.MustCompile(`(^|: )after \S+ still not: `),
		regexp.MustCompile(`^still not: `),
		regexp.MustCompile(`^a child said nothing for `),
		regexp.MustCompile(`did not [^;,]* within \S+$`),
		regexp.MustCompile(`rowlock: lease of .* lost: it was not renewed within its TTL(: [^,]*)?$`),
	}
)

// broken says what no load excuses about f; empty: a busy machine can break it.
func (f failure) broken(in sources) string {
	silent := true
	for _, m := range f.messages {
		switch {
		case raced.MatchString(m.text):
			return "a data race"
		case in.logged(f.pkg, m):
			continue
		}
		silent = false
		ofOne := testOfOne.MatchString(f.test) || breach.MatchString(m.text)
		if trusted.MatchString(m.text) || ofOne && !timeRanOut(m.text) {
			return m.file + ": " + m.text
		}
	}
	if silent && !f.inner && testOfOne.MatchString(f.test) {
		return "it failed without a word"
	}
	return ""
}

func timeRanOut(text string) bool {
	text = strings.TrimSpace(text)
	for _, kind := range ranOut {
		if kind.MatchString(text) {
			return true
		}
	}
	return false
}
