package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// startUI starts rowlock ui, and returns the link that it prints.
func startUI(t *testing.T, address string, args ...string) (link string, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), filepath.Join(bin, "rowlock"), append([]string{"ui", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(cmd.Environ(), "ROWLOCK_DB="+address)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	link, ok := strings.CutPrefix(strings.TrimSpace(line), "the page is at ")
	if !ok {
		t.Fatalf("it says %q", line)
	}
	return link, cmd
}

// fetch gets a page.
func fetch(t *testing.T, c *http.Client, link string) (status int, text string) {
	t.Helper()
	answer, err := c.Get(link)
	must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(body)
}

// TestUI: the page of each server shows who has a key, and lets whoever has the printed link end the hold.
func TestUI(t *testing.T) {
	for _, kind := range testserver.Some(t, kinds...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			address := database(t, kind)
			store := open(t, address)
			must(t, store.Migrate(t.Context()))
			locks, err := rowlock.New(store, rowlock.Options{Owner: "web-1"})
			must(t, err)
			t.Cleanup(func() { _ = locks.Close(t.Context()) })
			lease, err := locks.TryAcquire(t.Context(), "report")
			must(t, err)

			link, cmd := startUI(t, address, "--allow-free")
			jar, err := cookiejar.New(nil)
			must(t, err)
			browser := &http.Client{Jar: jar, Timeout: 20 * time.Second}
			base, _, _ := strings.Cut(link, "?")
			if status, _ := fetch(t, browser, base); status != http.StatusUnauthorized {
				t.Errorf("without the link: %d, want 401", status)
			}
			status, text := fetch(t, browser, link)
			if status != http.StatusOK || !strings.Contains(text, "web-1") || !strings.Contains(text, "report") {
				t.Fatalf("%d\n%s", status, text)
			}
			where := regexp.MustCompile(`<title>Locks · \w+ @ 127\.0\.0\.1:\d+ \(strategy version\)</title>`)
			if kind == testserver.Mongo {
				where = regexp.MustCompile(`<title>Locks · \w+\.locks @ 127\.0\.0\.1:\d+ \(MongoDB\)</title>`)
			}
			if !where.MatchString(text) {
				t.Errorf("the page does not say which database it is about, as %s:\n%s", where, text)
			}
			_, form := fetch(t, browser, base+"free?k=7265706f7274")
			values := url.Values{"typed": {"report"}, "alive": {"1"}}
			for _, m := range regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`).FindAllStringSubmatch(form, -1) {
				values.Set(m[1], m[2])
			}
			answer, err := browser.PostForm(base+"free", values)
			must(t, err)
			must(t, answer.Body.Close())
			if answer.StatusCode != http.StatusOK || !strings.Contains(answer.Request.URL.RawQuery, "freed=") {
				t.Errorf("the form: %d at %s", answer.StatusCode, answer.Request.URL)
			}
			infos, err := store.Inspect(t.Context(), []string{"report"})
			must(t, err)
			if infos[0].Held || infos[0].Token <= lease.Token() {
				t.Errorf("the hold was not ended: %+v", infos[0])
			}

			must(t, cmd.Process.Signal(syscall.SIGTERM))
			err = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGTERM) {
				t.Errorf("after TERM: exit code %d, %v", code, err)
			}
		})
	}
}

// TestUIUsers: with a file of users and a certificate the page asks for a password, by TLS.
func TestUIUsers(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.MySQL)
	must(t, open(t, address).Migrate(t.Context()))
	folder := t.TempDir()
	users, cert, key := filepath.Join(folder, "users"), filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	must(t, os.WriteFile(users, []byte("# who may look\nada:"+hash(t, "love:lace")+"\r\nbob:"+hash(t, "builder")+"\n"), 0o600))
	pool := certificate(t, cert, key)
	link, cmd := startUI(t, address, "--users", users, "--tls-cert", cert, "--tls-key", key)
	browser := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	if !strings.HasPrefix(link, "https://127.0.0.1:") {
		t.Fatalf("the link is %s", link)
	}
	for login, want := range map[[2]string]int{
		{"ada", ""}: 401, {"ada", "lace"}: 401, {"ada", "love:lace"}: 200, {"bob", "love:lace"}: 401, {"bob", "builder"}: 200, {"eve", "builder"}: 401, {"eve", "nobody"}: 401,
	} {
		u, err := url.Parse(link)
		must(t, err)
		password := login[1]
		u.User = url.UserPassword(login[0], password)
		if status, text := fetch(t, browser, u.String()); status != want || want == 200 && !strings.Contains(text, "This page only reads.") {
			t.Errorf("password %q: %d\n%s", password, status, text)
		}
	}
	must(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait() // with the code of the signal
}

// hash is what a file of users has of a password, as htpasswd writes it.
func hash(t *testing.T, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	must(t, err)
	return strings.Replace(string(h), "$2a$", "$2y$", 1)
}

// certificate makes one for 127.0.0.1.
func certificate(t *testing.T, cert, key string) *x509.CertPool {
	t.Helper()
	made := testserver.Certificate(t)
	bytes, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	must(t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]})
	must(t, os.WriteFile(cert, text, 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bytes}), 0o600))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}

// TestUIRefuses: what would open the page to others, or cannot be used, is refused with what would be right.
func TestUIRefuses(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.MySQL)
	folder := t.TempDir()
	users, empty, odd := filepath.Join(folder, "users"), filepath.Join(folder, "empty"), filepath.Join(folder, "odd")
	must(t, os.WriteFile(users, []byte("ada:"+hash(t, "lovelace")+"\n"), 0o600))
	plain, md5, twice, dear := filepath.Join(folder, "plain"), filepath.Join(folder, "md5"), filepath.Join(folder, "twice"), filepath.Join(folder, "dear")
	must(t, os.WriteFile(plain, []byte("ada:lovelace\n"), 0o600))
	must(t, os.WriteFile(md5, []byte("\nada:$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/\n"), 0o600))
	must(t, os.WriteFile(twice, []byte(strings.Repeat("ada:"+hash(t, "lovelace")+"\n", 2)), 0o600))
	must(t, os.WriteFile(dear, []byte("ada:"+strings.Replace(hash(t, "lovelace"), "$04$", "$31$", 1)+"\n"), 0o600))
	must(t, os.WriteFile(empty, []byte("# nobody\n"), 0o600))
	must(t, os.WriteFile(odd, []byte("ada\n"), 0o600))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	if page, err := net.Listen("tcp", "127.0.0.1:8990"); err == nil { // the default; else another program has it
		defer page.Close()
	}
	must(t, os.WriteFile(filepath.Join(folder, "cert"), []byte("none"), 0o600))
	for args, want := range map[string]string{
		"--listen " + taken.Addr().String():   "another program listens there: choose another port",
		"--listen 0.0.0.0:0":                  "--users FILE",
		"--listen :0 --insecure":              "--users FILE",
		"--listen 0.0.0.0:0 --users " + users: "--tls-cert and --tls-key, or --insecure",
		"--listen nowhere":                    "use host:port",
		"--users " + empty:                    "names nobody",
		"--users " + odd:                      "line 1 of " + odd + " is not name:hash: htpasswd -nB NAME",
		"--users " + plain:                    "line 1 of " + plain + ": what follows ada: is no bcrypt hash ($2y$…): htpasswd -nB NAME",
		"--users " + md5:                      "line 2 of " + md5 + ": what follows ada: is no bcrypt hash",
		"--users " + twice:                    "line 2 of " + twice + " names ada a second time",
		"--users " + dear:                     "the hash of ada has cost 31",
		"--users " + folder + "/none":         "no such file",
		"--tls-cert x":                        "go together",
		"--refresh 1ms":                       "at least 100ms",
		"--tls-cert " + folder + "/cert --tls-key " + folder + "/cert": "--tls-cert and --tls-key: tls: ",
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "rowlock"), append([]string{"ui"}, strings.Fields(args)...)...)
		cmd.Env = append(cmd.Environ(), "ROWLOCK_DB="+address)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 64 || !strings.Contains(string(out), want) {
			t.Errorf("ui %s: exit code %d, want 64 and %q:\n%s", args, code, want, out)
		}
		if strings.Contains(string(out), "lovelace") || strings.Contains(string(out), "HqJZ") {
			t.Errorf("ui %s: a password is told:\n%s", args, out)
		}
		if strings.Contains(string(out), "--users FILE") != strings.Contains(want, "--users FILE") {
			t.Errorf("ui %s: users make it no better:\n%s", args, out)
		}
	}
}
