package badinput

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// inside marks the process that has namespaces of its own.
const inside = "TOLLGATE_TEST_INSIDE"

// onItsOwnMounts runs f as the first process of namespaces in which a test may mount
// file systems. Where the kernel refuses them the test fails and shows its word.
func onItsOwnMounts(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if os.Getenv(inside) != "" {
		if os.Getpid() != 1 {
			t.Fatalf("the process is number %d, not the first", os.Getpid())
		}
		f(t)
		return
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "-Urmpf", "--mount-proc", os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("in its own namespaces (this test needs unshare and user namespaces): %v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// disk is a file system of a few megabytes.
type disk struct {
	t       *testing.T
	dir     string
	ballast string
}

// newDisk mounts one. It goes away with the namespace.
func newDisk(t *testing.T, size string) *disk {
	t.Helper()
	d := &disk{t: t, dir: t.TempDir()}
	if err := syscall.Mount("tollgate-test", d.dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("mounting a tmpfs of %s: %v", size, err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(d.dir, syscall.MNT_DETACH) })
	d.ballast = filepath.Join(d.dir, "ballast")
	return d
}

// fill takes all the space that is left.
func (d *disk) fill() {
	d.t.Helper()
	f, err := os.OpenFile(d.ballast, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for page := make([]byte, 4096); err == nil; {
		_, err = f.Write(page)
	}
	if free := d.free(); free != 0 {
		d.t.Fatalf("%d bytes are free after %v", free, err)
	}
}

// clear gives the space back.
func (d *disk) clear() {
	d.t.Helper()
	if err := os.Remove(d.ballast); err != nil {
		d.t.Fatal(err)
	}
}

func (d *disk) free() uint64 {
	d.t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.dir, &s); err != nil {
		d.t.Fatal(err)
	}
	return s.Bfree * uint64(s.Bsize)
}
