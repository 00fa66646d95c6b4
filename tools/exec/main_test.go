package exec_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	osexec "os/exec"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tollgate/tools/exec"
)

// TestMain runs the tests, or, as the first process of a namespace of its own, the
// dispatcher's part of TestB78OrphansAreReaped.
func TestMain(m *testing.M) {
	if os.Getenv("TOLLGATE_TEST_FIRST_PROCESS") != "" {
		if err := firstProcess(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func zeros(n int) string {
	sum := sha256.Sum256(make([]byte, n))
	return hex.EncodeToString(sum[:])
}

const calls = 300

// B78: as the first process, 300 commands each leave an orphan that ends later.
// Every exit code is right, and no zombie stays.
func TestB78OrphansAreReaped(t *testing.T) {
	cmd := osexec.Command("unshare", "-U", "-r", "-p", "-f", "--mount-proc", os.Args[0])
	cmd.Env = append(os.Environ(), "TOLLGATE_TEST_FIRST_PROCESS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("in its own process namespace (this test needs unshare and user namespaces): %v\n%s", err, out)
	}
}

func firstProcess() error {
	if os.Getpid() != 1 {
		return fmt.Errorf("the process is number %d, not the first", os.Getpid())
	}
	ctx, stop := context.WithCancel(context.Background())
	reaped := make(chan error, 1)
	go func() { reaped <- exec.Reap(ctx) }()
	wrong, peak := runOrphanMakers()
	deadline := time.Now().Add(8 * time.Second)
	for countZombies() > 0 && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
	}
	left := countZombies()
	stop()
	if err := <-reaped; err != nil {
		return err
	}
	if wrong != 0 || left != 0 || peak == 0 {
		return fmt.Errorf("%d wrong exit codes, %d zombies left, at most %d seen", wrong, left, peak)
	}
	return nil
}

// runOrphanMakers runs the calls, eight at a time, half of them failing, and
// returns how many verdicts were wrong and the most zombies seen.
func runOrphanMakers() (wrong, peak int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range calls {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			code, want := 0, "ok answered"
			if i%2 == 1 {
				code, want = 75, "transient answered EXIT_75"
			}
			e, err := exec.New(sh(fmt.Sprintf("setsid sleep 0.3 >/dev/null 2>&1 </dev/null & exit %d", code)))
			got := fmt.Sprint(err)
			if err == nil {
				got = short(e.Execute(context.Background(), attempt))
			}
			zombies := countZombies()
			mu.Lock()
			defer mu.Unlock()
			peak = max(peak, zombies)
			if got != want {
				wrong++
				fmt.Println("call", i, got)
			}
		})
	}
	all.Wait()
	time.Sleep(400 * time.Millisecond)
	return wrong, max(peak, countZombies())
}

func countZombies() (n int) {
	d, err := os.ReadDir("/proc")
	if err != nil {
		return -1
	}
	for _, entry := range d {
		var pid int
		var name, state string
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		if k, _ := fmt.Sscanf(string(stat), "%d %s %s", &pid, &name, &state); k == 3 && state == "Z" {
			n++
		}
	}
	return n
}
