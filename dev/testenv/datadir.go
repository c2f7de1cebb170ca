package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// fillDataDir makes dir a fresh data folder: a copy of a template in the cache, which takes a tenth of a second where
// the set-up itself takes several.
func fillDataDir(kind Kind, p program, dir string) error {
	build, product := initMySQL, MySQL
	if kind.isMariaDB() {
		build, product = initMariaDB, MariaDB
	}
	// The number counts our changes to what a template holds.
	template, err := once(fmt.Sprintf("template-%s-%s-2", product, p.version), func(dir string) error { return build(p, dir) })
	if err != nil {
		return fmt.Errorf("template data folder: %w", err)
	}
	return copyTree(template, dir)
}

// mysqlUsers: root may come from 127.0.0.1, which without name resolution does not match root@localhost.
const mysqlUsers = `CREATE USER root@'%' IDENTIFIED BY '` + rootPassword + `';
GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;
CREATE DATABASE test;
`

// initMySQL sets up an empty data folder. Nothing is lost by doing it without syncs: a failed set-up is thrown away.
func initMySQL(p program, dir string) error {
	sql := dir + ".sql"
	defer os.Remove(sql)
	if err := os.WriteFile(sql, []byte(mysqlUsers), 0o644); err != nil {
		return err
	}
	args := append(p.args[:len(p.args):len(p.args)], "--initialize-insecure", "--datadir="+dir, "--init-file="+sql,
		"--loose-innodb-redo-log-capacity=32M", "--innodb-flush-method=nosync", "--innodb-doublewrite=OFF",
		"--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=128M",
		"--skip-log-bin") // no executed transactions: copies can form a replication group
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	if out, err := exec.Command(p.path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("mysqld --initialize-insecure: %w\n%s", err, out)
	}
	return os.Remove(filepath.Join(dir, "auto.cnf")) // each copy makes a server_uuid of its own
}

// initMariaDB feeds the bootstrap mode what mariadb-install-db does; the server package does not have that script.
func initMariaDB(p program, dir string) error {
	var in bytes.Buffer
	in.WriteString("create database mysql;\nuse mysql;\nSET @auth_root_socket=NULL;\nSET @skip_auth_anonymous=1;\n")
	for _, what := range []string{"system_tables.sql", "performance_tables.sql", "system_tables_data.sql"} {
		text, err := readFirst(p.share, "mariadb_"+what, "mysql_"+what) // since MariaDB 11.8, before
		if err != nil {
			return err
		}
		in.Write(text)
		in.WriteByte('\n')
	}
	in.WriteString("create database test;\nflush privileges;\n")
	// The tables come with a root@127.0.0.1 that has no password and would hide root@'%'.
	for _, host := range []string{"127.0.0.1", "%"} {
		fmt.Fprintf(&in, "create or replace user root@'%s' identified by '%s';\n", host, rootPassword)
		fmt.Fprintf(&in, "grant all on *.* to root@'%s' with grant option;\n", host)
	}
	args := append(p.args[:len(p.args):len(p.args)], "--bootstrap", "--datadir="+dir, "--tmpdir="+dir, "--skip-log-bin")
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	cmd := exec.Command(p.path, args...)
	cmd.Stdin = &in
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "ERROR") {
		return fmt.Errorf("mariadbd --bootstrap: %v\n%s", err, out)
	}
	return nil
}

// readFirst reads the first file that is there, of some names in some folders.
func readFirst(dirs []string, names ...string) ([]byte, error) {
	for _, dir := range dirs {
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil || !errors.Is(err, fs.ErrNotExist) {
				return text, err
			}
		}
	}
	return nil, fmt.Errorf("no %s in %s", strings.Join(names, " or "), strings.Join(dirs, ", "))
}

// copyTree copies a folder of plain files.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(dst, 0o750)
		}
		return copyFile(path, dst)
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	_, err = out.ReadFrom(in) // inside the kernel, and without copying where the file system can share blocks
	return errors.Join(err, out.Close())
}
