package history

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// Meta is what a round was: enough to judge its history and to run it again.
type Meta struct {
	Seed    int64            `json:"seed"`
	Command string           `json:"command,omitempty"` // that runs this round again
	Started time.Time        `json:"started"`           // by the wall clock, for people
	Begin   time.Duration    `json:"begin"`             // by the clock of the events: texts count from here
	End     time.Duration    `json:"end,omitempty"`
	Spaces  map[string]Space `json:"spaces"` // by Event.Space
}

// Space is what one lock space runs on.
type Space struct {
	Server   string        `json:"server"`   // with its version: "MySQL 9.7.4"
	Strategy string        `json:"strategy"` // unique, version, for-update or mongo
	TTL      time.Duration `json:"ttl"`
}

const metaFile = "meta.json"

// WriteMeta writes the meta.json of a round. It may be written again.
func WriteMeta(folder string, m Meta) error {
	data, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, metaFile), append(data, '\n'), 0o644)
}

// LoadMeta reads the meta.json of a round.
func LoadMeta(folder string) (Meta, error) {
	var m Meta
	data, err := os.ReadFile(filepath.Join(folder, metaFile))
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(data, &m)
}
