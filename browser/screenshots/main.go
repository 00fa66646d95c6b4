// Command screenshots leaves a picture of every kind of page of the console in
// dist/screenshots: wide and narrow, light and dark.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tollgate/browser"
)

func main() {
	to := flag.String("to", filepath.Join("..", "dist", "screenshots"), "the folder")
	flag.Parse()
	if err := run(*to); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(to string) (err error) {
	dir, err := os.MkdirTemp("", "tollgate-screenshots-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bin, err := browser.Build(context.Background(), dir)
	if err != nil {
		return err
	}
	house, err := browser.Open(bin, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, house.Close()) }()
	chrome, err := browser.Launch()
	if err != nil {
		return err
	}
	defer chrome.Close()
	tab, err := chrome.Tab(true)
	if err != nil {
		return err
	}
	defer tab.Close()
	link, err := house.Link("admin")
	if err == nil {
		err = errors.Join(house.Seed(), tab.SignIn(link), os.MkdirAll(to, 0o755))
	}
	if err != nil {
		return err
	}
	return shoot(tab, to)
}

// shoot takes a picture of the first page of each kind.
func shoot(tab *browser.Tab, to string) error {
	taken := map[string]bool{}
	return tab.Walk(func(address string) error {
		page, _, _ := strings.Cut(browser.Shape(address), "?")
		if taken[page] {
			return nil
		}
		taken[page] = true
		name := cmp.Or(strings.ReplaceAll(strings.Trim(page, "/"), "/", "-"), "overview")
		for _, look := range browser.Looks {
			if err := tab.Look(look); err != nil {
				return err
			}
			png, err := tab.Screenshot()
			if err == nil {
				err = os.WriteFile(filepath.Join(to, fmt.Sprintf("%s-%s.png", name, look)), png, 0o644)
			}
			if err != nil {
				return err
			}
		}
		fmt.Println(page)
		return nil
	})
}
