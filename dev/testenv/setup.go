package testenv

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// rootPassword is the password of root on MySQL. It is no secret: the servers listen on 127.0.0.1 and live minutes.
const rootPassword = "secret"

// address sets the DSN and the way to wait, from the nodes' addresses.
func (s *Server) address() {
	addrs := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		addrs[i] = n.addr()
	}
	if !s.kind.isMongo() {
		s.dsn = "root:" + rootPassword + "@tcp(" + addrs[0] + ")/test"
		s.ready = func(ctx context.Context, up []node) error {
			for _, n := range up {
				if err := sqlReady(ctx, n, s.dsn); err != nil {
					return err
				}
			}
			return nil
		}
		return
	}
	s.dsn = "mongodb://" + strings.Join(addrs, ",") + "/"
	if s.kind == MongoStandalone {
		s.dsn += "?directConnection=true"
		s.ready = standaloneReady
		return
	}
	s.dsn += "?replicaSet=" + setName
	s.ready = (&replicaSet{nodes: s.nodes}).ready
}

// mysqldTuning is what both MySQL and MariaDB get, in a process and in a container: real durability, little memory,
// quick start. "loose" marks what one of them, or an older version, does not know.
var mysqldTuning = []string{
	"--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", // the durability that counts
	"--max-connections=600", "--skip-name-resolve",
	"--innodb-buffer-pool-size=128M", "--loose-innodb-redo-log-capacity=32M",
	"--innodb-buffer-pool-load-at-startup=OFF", "--innodb-buffer-pool-dump-at-shutdown=OFF",
}

// mysqldArgs are the arguments of a MySQL or MariaDB process.
func mysqldArgs(dir string, port int) []string {
	args := []string{
		"--datadir=" + dir, "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", port),
		"--socket=s.sock", "--pid-file=server.pid", // relative to the data folder: a socket's path is limited
		"--tmpdir=" + dir,                 // MariaDB empties it when it starts, and another's temporary tables may be there
		"--loose-mysqlx=OFF",              // its port would clash
		"--loose-secure-file-priv=" + dir, // the packages' default folder does not exist
		"--server-id=1", "--log-bin=binlog",
	}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	return append(args, mysqldTuning...)
}

// mysqldContainerArgs are the arguments of a MySQL or MariaDB container; its image does the rest.
func mysqldContainerArgs() []string {
	return append([]string{"--server-id=1", "--log-bin=binlog"}, mysqldTuning...)
}

// mongodTuning is what a mongod gets in a process and in a container. The journal is always on.
var mongodTuning = []string{
	"--oplogSize", "64", "--wiredTigerCacheSizeGB", "0.25", "--nounixsocket",
	"--setParameter", "diagnosticDataCollectionEnabled=false",
	"--setParameter", "enableTestCommands=1", // fail points
}

// mongodArgs are the arguments of a mongod process.
func mongodArgs(kind Kind, dir string, port int) []string {
	args := []string{"--dbpath", dir, "--bind_ip", "127.0.0.1", "--port", fmt.Sprint(port)}
	if kind != MongoStandalone {
		args = append(args, "--replSet", setName)
	}
	return append(args, mongodTuning...)
}

// mongodContainerArgs are the arguments of a mongod container. Only Mongo3 lives in the machine's network, and listens
// on its loopback; the others have one of their own, of which one port is published.
func mongodContainerArgs(kind Kind, port int) []string {
	args := []string{"--bind_ip", "0.0.0.0", "--port", fmt.Sprint(port)}
	if kind == Mongo3 {
		args[1] = "127.0.0.1"
	}
	if kind != MongoStandalone {
		args = append(args, "--replSet", setName)
	}
	return append(args, mongodTuning...)
}
