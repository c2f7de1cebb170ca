package rowlockcli

import (
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// maxCost is the largest cost of a hash: a check takes about a second then, and twice as long with each step more.
const maxCost = 14

// htpasswd is a file of users as the program htpasswd of Apache writes it: a line name:hash for each, by bcrypt.
type htpasswd struct {
	hashes map[string][]byte
	other  []byte // of a name that is not there: a check takes as long as of one that is
}

// readHtpasswd reads such a file.
func readHtpasswd(path string) (*htpasswd, error) {
	text, err := readText(path)
	if err != nil {
		return nil, invalid("--users: %w", err)
	}
	h := &htpasswd{hashes: make(map[string][]byte)}
	cost := 0
	for i, line := range strings.Split(text, "\n") {
		n, line := i+1, strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, hash, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return nil, invalid("--users: line %d of %s is not name:hash: htpasswd -nB NAME prints such a line", n, path)
		}
		if _, again := h.hashes[name]; again {
			return nil, invalid("--users: line %d of %s names %s a second time", n, path, printable(name))
		}
		c, err := bcrypt.Cost([]byte(hash))
		if err != nil { // the hash is not told: it may be a password
			return nil, invalid("--users: line %d of %s: what follows %s: is no bcrypt hash ($2y$…): htpasswd -nB NAME prints such a line", n, path, printable(name))
		}
		if c > maxCost {
			return nil, invalid("--users: line %d of %s: the hash of %s has cost %d, at which a check takes long: use at most %d (htpasswd -nB -C 10 NAME)", n, path, printable(name), c, maxCost)
		}
		h.hashes[name], cost = []byte(hash), max(cost, c)
	}
	if len(h.hashes) == 0 {
		return nil, invalid("--users: %s names nobody", path)
	}
	if h.other, err = bcrypt.GenerateFromPassword([]byte("nobody"), cost); err != nil {
		return nil, invalid("--users: %s: %w", path, err)
	}
	return h, nil
}

// check reports whether a password is that of a user.
func (h *htpasswd) check(name, password string) bool {
	hash, known := h.hashes[name]
	if !known {
		hash = h.other
	}
	return bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil && known
}
