package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// program is a server program and how to call it.
type program struct {
	path    string
	prefix  string   // the folder that it is installed in: above sbin, share and lib
	args    []string // before all others: the loader's, and where the program finds its files
	share   []string // MySQL and MariaDB: folders that may hold the files to set up a data folder
	version string
	galera  string   // Galera's library; for that kind only
	preload []string // libraries for the server to load first
	env     []string // beside this process's, while it serves
}

// programNames are the file names below usr/ of a folder in the cache, and on PATH.
var programNames = map[string][]string{
	"mysql":   {"sbin/mysqld"},
	"mariadb": {"sbin/mariadbd", "sbin/mysqld"},
	"galera":  {"sbin/mariadbd"},
	"mongo":   {"bin/mongod"},
}

// findProgram looks in the cache and then on PATH.
func findProgram(kind Kind) (program, error) {
	cache, err := cacheDir()
	if err != nil {
		return program{}, err
	}
	names := programNames[kind.product()]
	for _, name := range names {
		if p, err := unpacked(filepath.Join(cache, kind.product()), name); err == nil {
			return p.check(kind)
		}
	}
	for _, name := range names {
		path, err := exec.LookPath(filepath.Base(name))
		if err != nil {
			continue
		}
		prefix := filepath.Dir(filepath.Dir(path))
		p := program{path: path, prefix: prefix}
		if !kind.isMongo() {
			p.args = []string{"--no-defaults"}
			p.share = []string{prefix + "/share/mysql", prefix + "/share/mariadb", "/usr/share/mysql", "/usr/share/mariadb"}
		}
		if p, err = p.check(kind); err == nil {
			return p, nil
		}
	}
	return program{}, fmt.Errorf("%w: no %s in %s or on PATH", ErrUnavailable, filepath.Base(names[0]), cache)
}

// unpacked is a program in a folder of unpacked packages. It runs through the loader and the libraries of that folder.
func unpacked(tree, name string) (program, error) {
	path, args, err := unpackedProgram(tree, name)
	if err != nil {
		return program{}, err
	}
	p := program{path: path, prefix: tree + "/usr", args: args}
	if filepath.Base(name) != "mongod" {
		share := tree + "/usr/share/mariadb" // since MariaDB 11.8
		if _, err := os.Stat(share + "/charsets"); err != nil {
			share = tree + "/usr/share/mysql"
		}
		p.share = []string{share}
		p.args = append(p.args, "--no-defaults", "--basedir="+tree+"/usr", "--lc-messages-dir="+share,
			"--character-sets-dir="+share+"/charsets", "--plugin-dir="+tree+"/usr/lib/mysql/plugin")
	}
	return p, nil
}

// unpackedProgram is how a program in a folder of unpacked packages is called.
func unpackedProgram(tree, name string) (path string, args []string, err error) {
	file := filepath.Join(tree, "usr", name)
	if _, err := os.Stat(file); err != nil {
		return "", nil, err
	}
	var libs, loaders []string
	for _, pattern := range []string{"lib/*-linux-gnu", "usr/lib/*-linux-gnu"} {
		dirs, _ := filepath.Glob(filepath.Join(tree, pattern))
		libs = append(libs, dirs...)
		found, _ := filepath.Glob(filepath.Join(tree, pattern, "ld-linux-*.so.?"))
		loaders = append(loaders, found...)
	}
	if len(loaders) == 0 {
		return "", nil, fmt.Errorf("no loader below %s", tree)
	}
	return loaders[0], []string{"--library-path", strings.Join(libs, ":"), file}, nil
}

var versionNumber = regexp.MustCompile(`\d+\.\d+\.\d+`)

// check asks the program for its version: MySQL and MariaDB answer to the same name.
func (p program) check(kind Kind) (program, error) {
	out, err := exec.Command(p.path, append(p.args[:len(p.args):len(p.args)], "--version")...).CombinedOutput()
	if err != nil {
		return p, fmt.Errorf("%s --version: %w\n%s", p.path, err, out)
	}
	if isMaria := strings.Contains(string(out), "MariaDB"); isMaria != kind.isMariaDB() {
		return p, fmt.Errorf("%w: %s is not %s", ErrUnavailable, p.path, kind)
	}
	p.version = versionNumber.FindString(string(out))
	if kind == MariaDBGalera3 {
		if p.galera, err = galeraLibrary(p.prefix); err != nil {
			return p, err
		}
	}
	return p, nil
}

// galeraLibrary finds the library by which nodes replicate, in a package's place below the server's prefix.
func galeraLibrary(prefix string) (string, error) {
	for _, dir := range []string{prefix, "/usr"} {
		for _, place := range []string{"lib/galera", "lib64/galera-4", "lib/galera-4"} {
			file := filepath.Join(dir, place, "libgalera_smm.so")
			if _, err := os.Stat(file); err == nil {
				return file, nil
			}
		}
	}
	return "", fmt.Errorf("%w: no lib/galera/libgalera_smm.so below %s or /usr (Debian: package galera-4)", ErrUnavailable, prefix)
}
