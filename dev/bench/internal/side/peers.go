package side

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// peerTTL is the TTL of the peers' locks: rowlock's default.
const peerTTL = 30 * time.Second

func openRedis(s Spec) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Address, PoolSize: max(s.Callers, 10)})
}

// openRedislock retries every 5 ms: the library's default is one try, its example
// 100 ms.
func openRedislock(_ context.Context, s Spec) (Locker, error) {
	client := openRedis(s)
	return &redislocker{redislock.New(client), client}, nil
}

type redislocker struct {
	*redislock.Client
	redis *redis.Client
}

func (r *redislocker) Lock(ctx context.Context, key string) (Hold, error) {
	l, err := r.Obtain(ctx, key, peerTTL, &redislock.Options{RetryStrategy: redislock.LinearBackoff(pollerPause)})
	if err != nil {
		return nil, err
	}
	return redislockHold{l}, nil
}

func (r *redislocker) Close() error { return r.redis.Close() }

type redislockHold struct{ *redislock.Lock }

func (h redislockHold) Unlock(ctx context.Context) error { return h.Release(ctx) }

// openRedsync leaves the delay between tries at the library's default, a random
// time between 50 and 250 ms, but never gives up.
func openRedsync(_ context.Context, s Spec) (Locker, error) {
	client := openRedis(s)
	return &redsyncer{redsync.New(goredis.NewPool(client)), client}, nil
}

type redsyncer struct {
	*redsync.Redsync
	redis *redis.Client
}

func (r *redsyncer) Lock(ctx context.Context, key string) (Hold, error) {
	m := r.NewMutex("redsync-"+key, redsync.WithExpiry(peerTTL), redsync.WithTries(1<<30))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncHold{m}, nil
}

func (r *redsyncer) Close() error { return r.redis.Close() }

type redsyncHold struct{ *redsync.Mutex }

func (h redsyncHold) Unlock(ctx context.Context) error {
	ok, err := h.UnlockContext(ctx)
	if err == nil && !ok {
		err = errors.New("redsync: not unlocked")
	}
	return err
}

// etcdLocker has a session for each caller: within one session a Mutex excludes
// nobody.
type etcdLocker struct {
	client   *clientv3.Client
	sessions chan *concurrency.Session
}

func openEtcd(ctx context.Context, s Spec) (Locker, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Address}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	e := &etcdLocker{client, make(chan *concurrency.Session, max(s.Callers, 1))}
	for range cap(e.sessions) {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(int(peerTTL.Seconds())), concurrency.WithContext(context.WithoutCancel(ctx)))
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		e.sessions <- session
	}
	return e, nil
}

func (e *etcdLocker) Lock(ctx context.Context, key string) (Hold, error) {
	select {
	case session := <-e.sessions:
		m := concurrency.NewMutex(session, "/bench/"+key)
		if err := m.Lock(ctx); err != nil {
			e.sessions <- session
			return nil, err
		}
		return etcdHold{e, session, m}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the client; its sessions end by their TTL. (Ending each by itself
// would take longer than a round.)
func (e *etcdLocker) Close() error { return e.client.Close() }

type etcdHold struct {
	e       *etcdLocker
	session *concurrency.Session
	m       *concurrency.Mutex
}

func (h etcdHold) Unlock(ctx context.Context) error {
	err := h.m.Unlock(ctx)
	h.e.sessions <- h.session
	return err
}

// zooLocker has one connection for all callers.
type zooLocker struct{ conn *zk.Conn }

func openZooKeeper(ctx context.Context, s Spec) (Locker, error) {
	conn, events, err := zk.Connect([]string{s.Address}, peerTTL, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	if err != nil {
		return nil, err
	}
	late := time.After(10 * time.Second)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return &zooLocker{conn}, nil
			}
		case <-late:
			conn.Close()
			return nil, errors.New("zookeeper does not answer")
		case <-ctx.Done():
			conn.Close()
			return nil, ctx.Err()
		}
	}
}

// Lock gives up with ctx, which the library's Lock cannot: its place in the queue
// is given back when it has come to it.
func (z *zooLocker) Lock(ctx context.Context, key string) (Hold, error) {
	l := zk.NewLock(z.conn, "/bench/"+strings.ReplaceAll(key, "/", "_"), zk.WorldACL(zk.PermAll))
	done := make(chan error, 1)
	go func() { done <- l.Lock() }()
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
		return zooHold{l}, nil
	case <-ctx.Done():
		go func() {
			if <-done == nil {
				_ = l.Unlock()
			}
		}()
		return nil, ctx.Err()
	}
}

func (z *zooLocker) Close() error {
	z.conn.Close()
	return nil
}

type zooHold struct{ l *zk.Lock }

func (h zooHold) Unlock(context.Context) error { return h.l.Unlock() }

type quiet struct{}

func (quiet) Printf(string, ...any) {}
