#!/bin/sh
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Makes a bare Debian root file system ($1) a host for the demo. Runs once, inside the image build.
set -eu
root=$1

chroot "$root" useradd --create-home --shell /bin/bash ops
printf 'ops ALL=(ALL:ALL) NOPASSWD: ALL\n' > "$root/etc/sudoers.d/ops"
chmod 0440 "$root/etc/sudoers.d/ops"
# Commands under sudo see /etc/environment, as on Ubuntu; Debian has it for logins only.
printf 'session required pam_env.so readenv=1 user_readenv=0\n' >> "$root/etc/pam.d/sudo"

# Every host gets its own host key and identity when it is created.
rm -f "$root"/etc/ssh/ssh_host_*
: > "$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id"

install -d -m 0755 "$root/etc/ssh/authorized_keys"
cat > "$root/etc/ssh/sshd_config.d/demo.conf" <<'SSHD'
AllowUsers ops
AuthorizedKeysFile /etc/ssh/authorized_keys/%u
PasswordAuthentication no
PermitRootLogin no
UseDNS no
SSHD

# The controller's kernel log is not this host's.
install -d "$root/etc/systemd/journald.conf.d"
printf '[Journal]\nReadKMsg=no\nAudit=no\n' > "$root/etc/systemd/journald.conf.d/demo.conf"

# Written by the build for itself; the host gets the controller's settings when it is created.
rm -f "$root/etc/apt/apt.conf.d/99mmdebstrap" "$root"/etc/apt/sources.list.d/*
printf 'APT::Install-Recommends "false";\n' > "$root/etc/apt/apt.conf.d/80demo"

ln -sf /lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"
# Units that would reach for the controller's kernel, its devices or consoles, and timers that would take apt's lock.
for unit in \
  systemd-sysctl.service systemd-modules-load.service systemd-remount-fs.service systemd-pstore.service \
  systemd-udevd.service systemd-udev-trigger.service systemd-udevd-control.socket systemd-udevd-kernel.socket \
  systemd-logind.service systemd-journald-audit.socket systemd-ask-password-wall.path systemd-ask-password-console.path \
  getty.target getty@.service console-getty.service \
  dev-hugepages.mount dev-mqueue.mount sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
  sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount \
  apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer
do
  ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
