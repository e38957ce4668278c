# The healthy machine, inside namespaces of its own; machines are this one with a few lines after it.
# Run by root as pid 1 of `unshare`: whatever is mounted or started here goes with the namespaces.
# $CACHE: what jobs run with, kept and read-only; $USER_ID, $OTHER_ID: two users.
set -e
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
umask 022

# A place to set things up in: each of these folders is about to be covered.
mount -t tmpfs -o mode=755 stage /mnt
mkdir /mnt/cache /mnt/etc /mnt/dev /mnt/cgroup
mount --bind "$CACHE" /mnt/cache
mount -o remount,bind,ro /mnt/cache
cp -a /etc/. /mnt/etc
[ ! -d /sys/fs/cgroup ] || mount --rbind /sys/fs/cgroup /mnt/cgroup

# /dev as a container has it.
mount -t tmpfs -o mode=755,size=64k dev /mnt/dev
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
    name=${device%%:*} numbers=${device#*:}
    mknod -m 666 "/mnt/dev/$name" c "${numbers%:*}" "${numbers#*:}"
done
mkdir /mnt/dev/pts /mnt/dev/shm /mnt/dev/mqueue
ln -s /proc/self/fd /mnt/dev/fd
for number in 0 1 2; do ln -s "/proc/self/fd/$number" "/mnt/dev/$(echo stdin stdout stderr | cut -d' ' -f$((number + 1)))"; done
ln -s pts/ptmx /mnt/dev/ptmx
mount --move /mnt/dev /dev
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts /dev/pts
mount -t tmpfs -o mode=1777,size=1g shm /dev/shm
mount -t mqueue mqueue /dev/mqueue

# Names and users: a copy of /etc that may be written.
mount --bind /mnt/etc /etc
echo "trainer:x:$USER_ID:$USER_ID::/home/trainer:/bin/sh" >>/etc/passwd
echo "other:x:$OTHER_ID:$OTHER_ID::/home/other:/bin/sh" >>/etc/passwd
echo "trainer:x:$USER_ID:" >>/etc/group
echo "other:x:$OTHER_ID:" >>/etc/group
hostname node1
printf '127.0.0.1 localhost\n::1 localhost\n10.0.0.5 node1\n' >/etc/hosts
rm -f /etc/resolv.conf
echo nameserver 10.0.0.1 >/etc/resolv.conf
sed -i 's/^hosts:.*/hosts: files dns/' /etc/nsswitch.conf

# Empty folders in which jobs write.
for folder in /tmp /var/tmp /run; do
    mode=1777
    [ $folder != /run ] || mode=755
    mount -t tmpfs -o "mode=$mode,size=2g" "fresh$folder" $folder
done
for folder in /home /root; do mount -t tmpfs -o mode=755,size=2g "fresh$folder" $folder; done
chmod 700 /root
mkdir -p /home/trainer/job /home/other "$CACHE"
chown -R "$USER_ID:$USER_ID" /home/trainer
chown "$OTHER_ID:$OTHER_ID" /home/other
mount --move /mnt/cache "$CACHE"

# This namespace's own interfaces in /sys; control groups are the machine's.
if mount -t sysfs sysfs /sys && [ -d /sys/fs/cgroup ]; then mount --rbind /mnt/cgroup /sys/fs/cgroup; fi
umount -l /mnt/cgroup
rmdir /mnt/cache /mnt/dev /mnt/cgroup

# Two interfaces: the other end of eth0 is a switch that answers to 10.0.0.1.
ip link set lo up
unshare --net sleep 600 &
switch=$!
while [ "$(readlink /proc/$switch/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link add eth0 type veth peer name up0 netns $switch
nsenter --target $switch --net sh -c 'ip link set lo up; ip addr add 10.0.0.1/24 dev up0; ip link set up0 up'
ip addr add 10.0.0.5/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.0.1
cd /home/trainer/job

# For machines: a program of Python (a line of it) that another user has running, once it has done what it does.
mkfifo -m 622 /run/ready
held() {
    setpriv --reuid="$OTHER_ID" --regid="$OTHER_ID" --clear-groups /usr/bin/python3 -I -c \
        "import fcntl, mmap, os, socket, time; $1; open('/run/ready', 'w').write('x'); time.sleep(600)" &
    timeout 10 cat /run/ready >/dev/null
}
